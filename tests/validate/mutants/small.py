"""Broken variants of a small image.

The small image is Debian with a virtual environment of stand-ins: distributions named torch, ray and so on with
right metadata and RECORDs, whose libraries are ELF files without code. What is static about them is real.
"""

from __future__ import annotations

from tests.validate.elf_file import elf
from tests.validate.mutants.harness import SITE, Mutant, distribution
from validate.outcome import Level

RAY = b"#!/bin/sh\necho 'ray, version 2.60.0'\n"
NCCL_PATH = "nvidia/nccl/lib/libnccl.so.2"
NCCL_FUNCTIONS = ("ncclGetVersion", "ncclCommInitRank", "ncclCommResume")


def nccl(version: str, cuda: int = 13, functions: tuple[str, ...] = NCCL_FUNCTIONS) -> dict[str, bytes]:
    """A stand-in of an NCCL wheel; each version has another content."""
    library = elf(soname="libnccl.so.2", defined=[*functions, f"ncclVersion_{version.replace('.', '_')}"])
    return distribution(f"nvidia-nccl-cu{cuda}", version, {NCCL_PATH: library})


CUDART = elf(soname="libcudart.so.13")
TORCH_CUDA = elf(
    soname="libtorch_cuda.so",
    needed=["libnccl.so.2", "libcudart.so.13"],
    runpath="$ORIGIN/../../nvidia/nccl/lib:$ORIGIN/../../nvidia/cu13/lib",
    undefined=["ncclCommInitRank", "ncclCommResume"],
)
EXTENSION = elf(needed=["libtorch_cuda.so", "libx.so.1"], undefined=["Py_Initialize"])

GOOD_FILES = {
    **distribution("packaging", "26.0", {"packaging/__init__.py": b""}),
    **distribution("ray", "2.60.0", {"ray/__init__.py": b"__version__ = '2.60.0'\n"}, ("packaging>=25",)),
    **nccl("2.30.7"),
    **distribution("nvidia-cuda-runtime", "13.2.86", {"nvidia/cu13/lib/libcudart.so.13": CUDART}),
    **distribution(
        "torch",
        "2.15.0",
        {"torch/__init__.py": b"__version__ = '2.15.0'\n", "torch/lib/libtorch_cuda.so": TORCH_CUDA},
        ("nvidia-nccl-cu13==2.30.7", "nvidia-cuda-runtime~=13.2"),
    ),
    **distribution(
        "extra",
        "1.0",
        {"extra/_C.so": EXTENSION, "extra/libx.so.1": elf(soname="libx.so.1"), "extra/__init__.py": b"A = 1\n"},
        ("torch",),
    ),
    "opt/venv/bin/ray": RAY,
    "etc/profile.d/venv.sh": b'PATH="/opt/venv/bin:$PATH"\n',
}
GOOD_LINES = r"""
RUN python3 -m venv --without-pip /opt/venv && install -d -m 2775 -g 0 /home/ray \
 && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/venv/lib
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/home/ray
WORKDIR /home/ray
LABEL io.drydock.stack=small io.drydock.image=small \
 io.drydock.pin.ray=2.60.0 io.drydock.pin.torch=2.15.0 io.drydock.pin.nccl=2.30.7 io.drydock.pin.cuda=13.2
"""
# For what must run: the same claims but for Ray and torch, whose real selves it would take.
PLAIN_LINES = r"""
RUN python3 -m venv --without-pip /opt/venv && install -d -m 2775 -g 0 /home/ray /home/ray/.cache \
 && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/venv/lib
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/home/ray
LABEL io.drydock.stack=plain io.drydock.image=plain
ENTRYPOINT ["/usr/local/bin/entry"]
CMD ["/bin/bash"]
"""
PLAIN_FILES = {
    **distribution("packaging", "26.0", {"packaging/__init__.py": b""}),
    "usr/local/bin/entry": b'#!/bin/sh\nset -eu\nexec "$@"\n',
    "etc/profile.d/venv.sh": b'PATH="/opt/venv/bin:$PATH"\n',
}

TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh"
KEY_LINE = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gt\n"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + KEY_LINE * 4 + "-----END OPENSSH PRIVATE KEY-----\n"
V = f"/{SITE}"

# One of each kind, quick enough for every run of the tests; the marker `mutants` runs all.
QUICK = frozenset({
    "pin-label", "two-nccl", "broken-so", "cu12-mixed", "ld-path-old-nccl", "os-file-altered", "provider-env",
    "ifname-env", "pip-broken", "edited-in-place", "no-wget", "ssh-key", "secret-env", "secret-arg", "setuid",
    "root-home", "entry-no-exec",
})  # fmt: skip

MUTANTS = [
    # Pins
    Mutant("pin-label", "pins.ray", ("declared 2.61.0", "observed 2.60.0"),
           "LABEL io.drydock.pin.ray=2.61.0"),
    Mutant("pin-gone", "pins.torch", ("torch 2.15.0 is declared, and none is there",),
           f"RUN rm -rf {V}/torch-2.15.0.dist-info",
           also=frozenset({"python.requirements", "native.resolved"})),
    Mutant("two-nccl", "pins.nccl", ("nvidia-nccl-cu12 2.27.5", "nvidia-nccl-cu13 2.30.7", "write the same files",
                                     "which torch loads"),
           files=nccl("2.27.5", 12), also=frozenset({"python.single_owner", "native.cuda_names"})),
    Mutant("nccl-drift", "pins.nccl", ("declared 2.30.7", "observed 2.29.1"),
           f"RUN rm -rf {V}/nvidia_nccl_cu13-2.30.7.dist-info", files=nccl("2.29.1"),
           also=frozenset({"python.requirements"})),
    Mutant("excluded-present", "pins.excluded", ("nixl-cu12 1.3.2",), "LABEL io.drydock.excluded=nixl-cu12",
           files=distribution("nixl-cu12", "1.3.2"), also=frozenset({"native.cuda_names"})),
    # Native
    Mutant("broken-so", "native.resolved", (f"{V}/extra/_C.so needs libx.so.1",), f"RUN rm {V}/extra/libx.so.1",
           also=frozenset({"python.record"})),
    Mutant("needs-undeclared", "native.resolved", ("libtorch_cuda.so", "lonely/_C.so"),
           files=distribution("lonely", "1.0", {"lonely/_C.so": elf(needed=["libtorch_cuda.so"])})),
    Mutant("os-library-gone", "native.resolved", ("libssl.so.3",), "RUN rm /usr/lib/x86_64-linux-gnu/libssl.so.3",
           also=frozenset({"native.os_files"})),
    Mutant("old-symbol-version", "native.symbol_versions",
           ("IBVERBS_PRIVATE_34", "/usr/local/lib/libibverbs.so.1"),
           files={"usr/local/lib/libibverbs.so.1": elf(soname="libibverbs.so.1",
                                                       versions_given=["libibverbs.so.1", "IBVERBS_PRIVATE_59"]),
                  "usr/local/lib/libefa.so.1": elf(soname="libefa.so.1", needed=["libibverbs.so.1"],
                                                   versions_needed={"libibverbs.so.1": ["IBVERBS_PRIVATE_34"]})},
           also=frozenset({"fabric.rdma_core"})),
    Mutant("glibc-too-new", "native.symbol_versions", ("GLIBC_2.99",),
           files={"usr/local/bin/tool": elf(needed=["libc.so.6"], versions_needed={"libc.so.6": ["GLIBC_2.99"]})}),
    Mutant("cu12-mixed", "native.single_cuda_major", ("CUDA majors 12 and 13", "libcudart.so.12"),
           files=distribution("other", "1.0", {"other/_C.so": elf(needed=["libcudart.so.12"]),
                                               "other/libcudart.so.12": elf(soname="libcudart.so.12")})),
    Mutant("cuda-major-declared", "native.single_cuda_major", ("CUDA 12 is declared, 13 observed",),
           "LABEL io.drydock.pin.cuda=12.8", also=frozenset({"native.cuda_names"})),
    Mutant("cupy-cuda12x", "native.cuda_names", ("cupy-cuda12x 13.4.0 is for CUDA 12",),
           files=distribution("cupy-cuda12x", "13.4.0")),
    Mutant("ld-path-old-nccl", "native.nccl_winner", ("/usr/local/lib/libnccl.so.2", "LD_LIBRARY_PATH", "2.30.7"),
           "ENV LD_LIBRARY_PATH=/usr/local/lib",
           files={"usr/local/lib/libnccl.so.2": elf(soname="libnccl.so.2", defined=NCCL_FUNCTIONS)},
           also=frozenset({"native.copies", "native.library_path"})),
    Mutant("nccl-lacks-function", "native.nccl_symbols", ("ncclCommResume", "libtorch_cuda.so"),
           files=nccl("2.30.7", functions=("ncclGetVersion", "ncclCommInitRank"))),
    Mutant("two-libfabric", "native.copies", ("libfabric.so.1 exists 2 times",),
           files={"usr/lib/x86_64-linux-gnu/libfabric.so.1": elf(soname="libfabric.so.1", defined=["a"]),
                  "opt/amazon/efa/lib/libfabric.so.1": elf(soname="libfabric.so.1", defined=["b"])}),
    Mutant("shadowed-library", "native.library_path", ("libz.so.1", "/opt/old/libz.so.1"),
           "ENV LD_LIBRARY_PATH=/opt/old", files={"opt/old/libz.so.1": elf(soname="libz.so.1")},
           also=frozenset({"native.symbol_versions"})),
    Mutant("wrong-machine", "native.machine", ("arm/_C.so is for ELF machine 183",),
           files=distribution("arm", "1.0", {"arm/_C.so": elf(machine=183)})),
    Mutant("truncated-library", "native.well_formed", ("libtorch_cuda.so", "truncated"),
           f"RUN truncate -s 300 {V}/torch/lib/libtorch_cuda.so",
           also=frozenset({"python.record", "native.resolved"})),
    Mutant("os-file-altered", "native.os_files", ("/usr/bin/openssl of package openssl is altered",),
           "RUN printf x >> /usr/bin/openssl"),
    Mutant("os-library-replaced", "native.os_files", ("libcrypto.so.3",),
           "RUN cp /usr/lib/x86_64-linux-gnu/libcrypto.so.3 /tmp/c && printf x >> /tmp/c "
           "&& mv /tmp/c /usr/lib/x86_64-linux-gnu/libcrypto.so.3"),
    Mutant("preload-env", "native.preload", ("LD_PRELOAD=/usr/lib/libfoo.so",),
           "ENV LD_PRELOAD=/usr/lib/libfoo.so"),
    Mutant("preload-file", "native.preload", ("/etc/ld.so.preload",),
           files={"etc/ld.so.preload": b"/usr/lib/x.so\n"}),
    # Fabric and environment
    Mutant("provider-env", "fabric.no_provider_forced", ("forces a libfabric provider", "FI_PROVIDER=tcp"),
           "ENV FI_PROVIDER=tcp"),
    Mutant("provider-profile", "fabric.no_provider_forced", ("FI_PROVIDER=efa in /etc/profile.d/efa.sh:1",),
           files={"etc/profile.d/efa.sh": b"export FI_PROVIDER=efa\n"}),
    Mutant("ifname-env", "fabric.no_interface_named", ("interface name is hard-coded", "eth0"),
           "ENV NCCL_SOCKET_IFNAME=eth0"),
    Mutant("ifname-gloo-bashrc", "fabric.no_interface_named", ("GLOO_SOCKET_IFNAME=ens5 in /root/.bashrc:",),
           "RUN echo 'export GLOO_SOCKET_IFNAME=ens5' >> /root/.bashrc"),
    Mutant("nccl-conf", "fabric.no_nccl_forced", ("NCCL_IB_DISABLE=1 in /etc/nccl.conf:2",),
           files={"etc/nccl.conf": b"# ours\nNCCL_IB_DISABLE=1\n"}),
    Mutant("nccl-net", "fabric.no_nccl_forced", ("NCCL_NET=Socket",), "ENV NCCL_NET=Socket"),
    Mutant("rdmav-fork-safe", "fabric.no_internals_set", ("RDMAV_FORK_SAFE=1",), "ENV RDMAV_FORK_SAFE=1"),
    Mutant("visible-devices", "env.no_gpu_choice", ("CUDA_VISIBLE_DEVICES=0",), "ENV CUDA_VISIBLE_DEVICES=0"),
    Mutant("ray-address", "env.no_ray_address", ("RAY_ADDRESS=10.0.0.1:6379",), "ENV RAY_ADDRESS=10.0.0.1:6379"),
    Mutant("require-cuda", "env.cuda_requirement", ("NVIDIA_REQUIRE_CUDA=cuda>=13.3",),
           "ENV NVIDIA_REQUIRE_CUDA=cuda>=13.3"),
    Mutant("no-fabric", "fabric.libfabric", ("the loader finds no libfabric.so.1",),
           "LABEL io.drydock.fabric=distro"),
    Mutant("plugin-off-path", "fabric.nccl_plugin", ("/opt/amazon/ofi-nccl/lib/libnccl-net.so is there, outside",),
           "LABEL io.drydock.fabric=efa",
           files={"opt/amazon/ofi-nccl/lib/libnccl-net.so": elf(defined=["ncclNetPlugin_v11"])},
           also=frozenset({"fabric.libfabric"})),
    # Python
    Mutant("pip-broken", "python.requirements", ("ray 2.60.0 requires packaging>=25: packaging is not installed",),
           f"RUN rm -rf {V}/packaging*"),
    Mutant("pip-version", "python.requirements", ("packaging 24.0 is installed",),
           f"RUN rm -rf {V}/packaging-26.0.dist-info", files=distribution("packaging", "24.0")),
    Mutant("two-owners", "python.single_owner", ("extra/__init__.py", "extra and extra-fork"),
           files=distribution("extra-fork", "1.0", {"extra/__init__.py": b"A = 2\n"})),
    Mutant("edited-in-place", "python.record", ("ray/__init__.py of ray 2.60.0 is not what its RECORD says",),
           f"RUN echo 'patched = True' >> {V}/ray/__init__.py"),
    Mutant("file-lost", "python.record", ("extra/libx.so.1", "missing"),
           f"RUN cp {V}/extra/libx.so.1 /usr/lib/x86_64-linux-gnu/ && rm {V}/extra/libx.so.1"),
    Mutant("stale-bytecode", "python.bytecode", ("do not match their sources",),
           f"RUN /opt/venv/bin/python -m compileall -qf --invalidation-mode timestamp {V}/ray "
           f"&& touch -d 2020-01-01 {V}/ray/__init__.py"),
    Mutant("no-bytecode", "python.bytecode", ("no file is compiled",),
           "RUN find / -xdev -name '*.pyc' -delete"),
    Mutant("pythonpath", "python.path", ("PYTHONPATH=/work",), "ENV PYTHONPATH=/work"),
    # KubeRay
    Mutant("no-wget", "kuberay.tools", ("KubeRay needs wget", "RayService"), "RUN dpkg --purge --force-all wget"),
    Mutant("no-openssl", "kuberay.tools", ("KubeRay needs openssl", "TLS"),
           "RUN dpkg --purge --force-all openssl"),
    Mutant("no-hostname", "kuberay.tools", ("KubeRay needs hostname",),
           "RUN dpkg --purge --force-all hostname"),
    # Security
    Mutant("ssh-key", "security.private_keys", ("a private key is in the image: /root/.ssh/id_ed25519",),
           "RUN ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519"),
    Mutant("ssh-key-elsewhere", "security.private_keys", ("/opt/deploy/config.yaml",),
           files={"opt/deploy/config.yaml": f"key: |\n{KEY}".replace("\n", "\n  ").encode()}),
    Mutant("tls-key", "security.private_keys", ("/etc/ssl/private/server.key",),
           "RUN openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out /etc/ssl/private/server.key"),
    Mutant("service-account", "security.private_keys", ("/root/sa.json",),
           files={"root/sa.json": ('{"private_key": "' + KEY.replace("\n", "\\n") + '"}').encode()}),
    Mutant("host-keys", "security.ssh_host_keys", ("/etc/ssh/ssh_host_rsa_key",),
           files={"etc/ssh/ssh_host_rsa_key": KEY.encode()}, also=frozenset({"security.private_keys"})),
    Mutant("root-login", "security.ssh_trust", ("PermitRootLogin yes",),
           files={"etc/ssh/sshd_config.d/mpi.conf": b"PermitRootLogin yes\n"}),
    Mutant("secret-env", "security.environment", ("ENV HF_TOKEN", "Hugging Face token"), f"ENV HF_TOKEN={TOKEN}",
           also=frozenset({"security.history"})),
    Mutant("password-env", "security.environment", ("ENV DB_PASSWORD",), "ENV DB_PASSWORD=tr0ub4dor3",
           also=frozenset({"security.history"})),
    Mutant("proxy-password", "security.environment", ("https_proxy", "password in an address"),
           "ENV https_proxy=http://bob:s3cret@proxy.corp:3128", also=frozenset({"security.history"})),
    Mutant("secret-arg", "security.history", ("value of API_TOKEN",),
           "ARG API_TOKEN=abcd1234efgh5678\nRUN echo $API_TOKEN | wc -c"),
    Mutant("secret-file", "security.credentials", ("Hugging Face token in /root/.cache/huggingface/token",),
           files={"root/.cache/huggingface/token": TOKEN.encode()}),
    Mutant("aws-credentials", "security.credentials", ("AWS", "/root/.aws/credentials"),
           files={"root/.aws/credentials": b"[default]\naws_secret_access_key = " + b"a1B2" * 10 + b"\n"}),
    Mutant("pip-conf-password", "security.credentials", ("/etc/pip.conf",),
           files={"etc/pip.conf": b"[global]\nindex-url = https://bob:s3cret@pypi.example/simple\n"}),
    Mutant("setuid", "security.privileged", ("/usr/local/bin/bash2", "user 0"),
           "RUN cp /bin/bash /usr/local/bin/bash2 && chmod 4755 /usr/local/bin/bash2"),
    Mutant("world-writable", "security.world_writable", ("/opt/venv/bin/ray",), "RUN chmod 777 /opt/venv/bin/ray"),
    Mutant("git", "security.version_control", ("/opt/app/.git/HEAD",), files={"opt/app/.git/HEAD": b"ref: x\n"}),
    Mutant("history-file", "security.version_control", ("shell history", "/root/.bash_history"),
           files={"root/.bash_history": b"ls\n"}),
    Mutant("apt-lists", "size.caches", ("package lists of apt",),
           files={"var/lib/apt/lists/deb.example_dists_trixie_InRelease": b"x" * 100}),
    Mutant("pip-cache", "size.caches", ("cache of pip",), files={"root/.cache/pip/http-v2/a/b": b"x" * 100}),
    Mutant("tmp-left", "size.leftovers", ("/tmp/build.log",), files={"tmp/build.log": b"x"}),
    Mutant("netrc", "security.credentials", ("password in .netrc", "/root/.netrc"),
           files={"root/.netrc": b"machine api.wandb.ai login user password 0123456789abcdef0123456789\n"}),
    Mutant("pypirc", "security.credentials", (".pypirc",),
           files={"root/.pypirc": b"[pypi]\npassword = hunter2hunter2\n"}),
    Mutant("git-credentials", "security.credentials", ("kept by git",),
           files={"root/.git-credentials": b"https://bob:0123456789abcdef@git.example\n"}),
    Mutant("docker-login", "security.credentials", ("registry login", "/root/.docker/config.json"),
           files={"root/.docker/config.json": b'{"auths": {"r.example": {"auth": "Ym9iOmh1bnRlcjJodW50ZXIy"}}}'}),
    Mutant("der-key", "security.private_keys", ("/etc/ssl/server.key", "DER"),
           "RUN openssl genpkey -algorithm RSA -outform DER -out /etc/ssl/server.key"),
    Mutant("pkcs12", "security.private_keys", ("/opt/app/client.p12",),
           "RUN mkdir -p /opt/app && openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -keyout /k -out /c "
           "&& openssl pkcs12 -export -inkey /k -in /c -out /opt/app/client.p12 -passout pass:x && rm /k /c"),
    Mutant("root-password", "security.passwords", ("for root",), "RUN echo root:secret | chpasswd"),
    Mutant("empty-password", "security.passwords", ("for guest",), "RUN useradd guest && passwd -d guest"),
    Mutant("sudo-nopasswd", "security.sudo", ("/etc/sudoers.d/all", "NOPASSWD"),
           files={"etc/sudoers.d/all": b"ray ALL=(ALL) NOPASSWD:ALL\n"}),
    # Operating system and labels
    Mutant("half-configured", "os.configured", ("installed halfway: wget",),
           "RUN sed -i '/^Package: wget$/,/^$/s/^Status: .*/Status: install ok half-configured/' "
           "/var/lib/dpkg/status"),
    Mutant("forced-purge", "os.dependencies", ("depends on libpsl5t64",),
           "RUN dpkg --purge --force-all libpsl5t64",
           also=frozenset({"native.resolved"})),
    Mutant("no-ca", "os.ca_certificates", ("ca-certificates.crt is missing",),
           "RUN rm /etc/ssl/certs/ca-certificates.crt"),
    Mutant("no-oci-labels", "labels.oci", ("org.opencontainers.image.revision",), "LABEL io.drydock.lock=0123"),
    Mutant("stub-libcuda", "native.no_driver", ("libcuda.so.1", "/usr/local/cuda/lib64/stubs"),
           "ENV LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs",
           files={"usr/local/cuda/lib64/stubs/libcuda.so.1": elf(soname="libcuda.so.1")}),
    Mutant("graphics-only", "env.driver_capabilities", ("NVIDIA_DRIVER_CAPABILITIES=graphics",),
           "ENV NVIDIA_DRIVER_CAPABILITIES=graphics"),
    # What must run
    Mutant("root-home", "users.writable", ("12345:0 can't write to /home/ray (HOME)",),
           "RUN chmod 755 /home/ray", base="plain", level=Level.CONTAINER),
    Mutant("home-is-root", "users.writable", ("can't write to / (HOME)",), "ENV HOME=/", base="plain",
           level=Level.CONTAINER),
    Mutant("cache-not-writable", "users.writable", ("/opt/cache/hf (HF_HOME)",),
           "RUN mkdir -p /opt/cache/hf\nENV HF_HOME=/opt/cache/hf", base="plain", level=Level.CONTAINER),
    Mutant("entry-swallows-code", "entrypoint.command", ("exit code is lost",),
           files={"usr/local/bin/entry": b'#!/bin/sh\n"$@"\nexit 0\n'}, base="plain", level=Level.CONTAINER,
           also=frozenset({"entrypoint.stop"})),
    Mutant("entry-needs-driver", "entrypoint.command", ("did not run its command",),
           files={"usr/local/bin/entry": b'#!/bin/sh\nset -e\ncat /proc/driver/nvidia/version\nexec "$@"\n'},
           base="plain", level=Level.CONTAINER, also=frozenset({"entrypoint.stop"})),
    Mutant("entry-gone", "entrypoint.command", ("can't start /usr/local/bin/entry",),
           "RUN rm /usr/local/bin/entry",
           base="plain", level=Level.CONTAINER, also=frozenset({"entrypoint.stop", "security.no_listener"})),
    Mutant("entry-shell-form", "entrypoint.command", ("did not run its command",), "ENTRYPOINT sleep 1",
           base="plain", level=Level.CONTAINER, also=frozenset({"entrypoint.stop"})),
    Mutant("tmp-not-writable", "users.writable", ("can't write to /tmp",), "RUN chmod 755 /tmp", base="plain",
           level=Level.CONTAINER),
    Mutant("server-by-default", "security.no_listener", ("listens on port 8123",),
           files={"usr/local/bin/entry": b'#!/bin/sh\npython3 -m http.server 8123 >/dev/null 2>&1 &\nexec "$@"\n'},
           base="plain", level=Level.CONTAINER),
    Mutant("entry-no-exec", "entrypoint.stop", ("the signal did not arrive",),
           files={"usr/local/bin/entry": b'#!/bin/sh\n"$@"\n'}, base="plain", level=Level.CONTAINER),
]  # fmt: skip
