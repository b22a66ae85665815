"""The broken images that users met, made from real Train and LLM images as `nox -s build` leaves them."""

from __future__ import annotations

from tests.validate.elf_file import elf
from tests.validate.mutants.harness import SITE, Mutant
from tests.validate.mutants.small import NCCL_FUNCTIONS, TOKEN
from validate.outcome import Level

V = f"/{SITE}"

# A stand-in of a libfabric built without efa: Debian's, with its provider under another name
# (the linker kept that name as the end of a longer text).
RENAME_EFA = b"""
import pathlib
file = pathlib.Path("/usr/lib/x86_64-linux-gnu/libfabric.so.1").resolve()
file.write_bytes(file.read_bytes().replace(b"_efa\\0", b"_xfa\\0"))
"""

MUTANTS = [
    Mutant("two-nccl", "pins.nccl", ("nvidia-nccl-cu12 2.27.5", "nvidia-nccl-cu13", "which torch loads"),
           wheels=("nvidia-nccl-cu12==2.27.5",), base="train",
           also=frozenset({"python.single_owner", "native.cuda_names", "native.nccl_symbols"})),
    Mutant("two-nccl-loaded", "pins.nccl_loaded", ("undefined symbol: ncclCommResume",),
           wheels=("nvidia-nccl-cu12==2.27.5",),
           base="train", level=Level.CONTAINER,
           also=frozenset({"pins.torch_runs", "pins.cuda", "python.imports", "users.arbitrary", "jobs.train"})),
    Mutant("ld-path-old-nccl", "native.nccl_winner",
           ("/usr/local/lib/libnccl.so.2", "LD_LIBRARY_PATH", "the pin says"),
           "ENV LD_LIBRARY_PATH=/usr/local/lib", base="train",
           files={"usr/local/lib/libnccl.so.2": elf(soname="libnccl.so.2", defined=NCCL_FUNCTIONS)},
           also=frozenset({"native.copies"})),
    Mutant("no-wget", "kuberay.tools", ("KubeRay needs wget",), "RUN dpkg --purge --force-all wget", base="train"),
    Mutant("no-wget-probes", "kuberay.exec_probes", ("wget",), "RUN dpkg --purge --force-all wget", base="train",
           level=Level.CONTAINER),
    Mutant("login-path", "kuberay.login_shell", ("`bash -lc` does not find ray",), "RUN rm -f /etc/profile.d/*",
           base="train", level=Level.CONTAINER, also=frozenset({"shell.login_environment"})),
    Mutant("ssh-key", "security.private_keys", ("a private key is in the image: /root/.ssh/id_ed25519",),
           "RUN mkdir -p /root/.ssh && ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519", base="train"),
    Mutant("provider-env", "fabric.no_provider_forced", ("FI_PROVIDER=tcp",), "ENV FI_PROVIDER=tcp", base="llm"),
    Mutant("ifname-env", "fabric.no_interface_named", ("eth0",), "ENV NCCL_SOCKET_IFNAME=eth0", base="train"),
    Mutant("pip-broken", "python.requirements", ("packaging is not installed",), f"RUN rm -rf {V}/packaging*",
           base="train"),
    Mutant("cu12-mixed", "native.single_cuda_major", ("CUDA majors 12 and 13", "overwritten", "nixl"),
           wheels=("nixl-cu12==1.3.2",), base="llm",
           also=frozenset({"native.cuda_names", "native.resolved", "python.single_owner", "pins.excluded"})),
    Mutant("secret-env", "security.environment", ("ENV HF_TOKEN", "Hugging Face token"), f"ENV HF_TOKEN={TOKEN}",
           base="train", also=frozenset({"security.history"})),
    Mutant("pin-drift", "pins.ray", ("declared 2.60.0", "observed 2.58.1"), f"RUN rm -rf {V}/ray-2.60.0.dist-info",
           wheels=("ray==2.58.1",), base="train", also=frozenset({"python.requirements", "python.bytecode"})),
    Mutant("broken-so", "native.resolved", ("libcudnn.so.9",), f"RUN rm {V}/nvidia/cudnn/lib/libcudnn.so.9",
           base="train", also=frozenset({"python.record"})),
    Mutant("no-efa-provider", "fabric.efa_provider", ("fi_info lists no efa provider",), base="train",
           level=Level.CONTAINER,
           lines="RUN python /opt/rename.py && rm /opt/rename.py", files={"opt/rename.py": RENAME_EFA}),
    Mutant("root-home", "users.writable", ("12345:0 can't write to /home/ray",), "RUN chmod -R go-w /home/ray",
           base="train", level=Level.CONTAINER),
]  # fmt: skip
