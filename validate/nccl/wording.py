"""What one message of NCCL or of a plugin says, whatever the version: NCCL 2.3 to 2.32, aws-ofi-nccl, RCCL."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from validate.nccl.cause import sign
from validate.nccl.line import Message

__all__ = ["DECISIVE_WORDS", "Fact", "Kind", "read", "transport"]

Kind: TypeAlias = Literal[
    "net",
    "intra",
    "comm",
    "choice",
    "rings",
    "provider",
    "devices",
    "socket",
    "other",
    "version",
    "plugin",
    "libfabric",
    "loaded",
    "aws",
    "env",
    "ranks",
    "sign",
    "warn",
    "trail",
]
Fact: TypeAlias = tuple[Kind, tuple[str, ...]]

# Every message that says something holds one of these; letters only, so that a line's letters alone can decide.
DECISIVE_WORDS = re.compile(
    r" via |WARN|ERROR|[Uu]sing (?:internal )?[Nn]etwork|NET plugin|[Pp]rovider|aws-ofi-nccl|Libfabric version|CCL"
    r" version|"
    r"NET/(?:IB|Socket|FastSocket|FasTrak|GPUDirectTCPX|gIB|TCPX|UCX)|NET/Plugin|NET/OFI"
    r" (?:No|Only|Unable|Failed|Could|OFI|Running|Setting provider|Configuring|Plugin)|"
    r"comm 0x|Connected all rings|set by environment|lib\w*\.so|(?:net|NET|P2P|network|external) plugin |Plugin"
    r" Path|GPU Direct RDMA|"
    r"\.(?:cc|c|h|cpp|cu):\d+ -> |retrying|[Mm]ismatch|error|[Ff]ailed|not found|/dev/shm|Channel \d+/\d+"
    r" :\s+\d+\s+\d"
)
_CHANNEL = re.compile(
    r"(?:Channel|Ring|Tree|CollNet(?: \w+)?|NVLS) [\d/]+ ?: ?(?:(?P<src>\d{1,9})(?:\[\w+\])?)?(?: ->"
    r" (?P<dst>\d{1,9})(?:\[\w+\])?)? ?"
    r"(?:\[(?P<way>send|receive)\] )?via (?P<via>.+)"
)
_VIA_NET = re.compile(
    r"NET/(?P<name>[^/\n]*[^/\s])/(?P<dev>-?\d+)(?:\(-?\d+\))?(?P<gdr>/GDRDMA)?|COLLNET/(?P<coll>[^/\s]+)/\d+(?P<cgdr>/GDRDMA)?"
    r"|NET/(?P<cut>(?:AWS )?Libfabric|Socket|IB|IBext\w*)$"
)
_VIA_INTRA = re.compile(r"(P2P/(?:IPC|CUMEM|direct pointer|indirect|\w+)|SHM|direct shared memory|NVLS|P2P)")
_CHOICE = re.compile(
    r"(?:Using (?:internal )?[Nn]etwork|Assigned NET plugin) (?!plugin)(?P<name>[A-Za-z][\w +-]*?)(?: to"
    r" comm)?\.?$"
)
_PROVIDER = re.compile(
    r"NET/OFI Selected [Pp]rovider is (?P<name>[\w;.-]+)(?:, fabric is (?P<fabric>[\w.-]+))?(?:.*?\(found"
    r" (?P<nics>\d+) nics\))?"
)
_PLUGIN = re.compile(r"NET/OFI (?:Initializing|Using) aws-ofi-nccl (\S+)")
_LIBFABRIC = re.compile(r"NET/OFI Using Libfabric version (\S+)")
_VERSION = re.compile(r"^(?:(?P<lib>[NR])CCL version ?:? ?(?P<version>\d[\w.+:-]*))")
_DEVICES = re.compile(r"NET/IB ?: ?Using (?P<list>\[0\].*?)(?:\s*\[RO\])?\s*(?:;|$)")
_SOCKET = re.compile(r"NET/Socket ?: ?Using (?P<list>\[0\].*)|NET/Socket ?: ?\d+ interfaces found")
_COMM = re.compile(
    r"(?:\[Rank \d+\] )?(?:nccl\w+ )?comm (?P<at>0x[0-9a-fA-F]+) rank (?P<rank>\d{1,9}) n[rR]anks"
    r" (?P<n>\d+)(?P<rest>.*)"
)
_NODES = re.compile(r"nNodes (\d{1,9})\b")
_COMM_ID = re.compile(r"commId (0x[0-9a-fA-F]+)")
_RINGS = re.compile(r"Connected all (?P<what>rings)(?:.*\bGDR (?P<gdr>\d))?")
_ORDER = re.compile(r"Channel \d+/\d+ :(?P<ranks>(?:\s+\d+){2,})\s*$")
_ENV = re.compile(r"(?P<name>(?:NCCL|FI|OFI|RDMAV)_\w+) set (?:by environment )?to (?P<value>.*?)\.?$")
_TRAIL = re.compile(r"(?P<place>[\w/.-]{1,80}\.(?:cc|c|h|cpp|cu)):\d+ -> (?P<code>\d+)")
_LOADED = re.compile(
    r"NET/Plugin: Loaded net plugin (?P<net>.+?) \(v\d+\)|Plugin Path : (?P<path>\S+)|P2P plugin (?P<p2p>\S+)"
    r"|Successfully loaded external (?:network )?plugin (?P<ext>\S+)"
)
_AWS = re.compile(
    r"NET/OFI (?:Running on (?P<type>\w[\w-]*\.\w+) platform|Setting provider_filter to efa|Configuring"
    r" AWS-specific options"
    r"|Plugin selected platform: AWS|Setting FI_EFA|Forcing AWS OFI|Skipping NCCL_PROTO checks on P\d)|on P\d\w*"
    r" \+ RDMA"
)
_OTHER = re.compile(r"NET/(?P<name>FastSocket|FasTrak|GPUDirectTCPX\w*|gIB|TCPX\w*|UCX\w*)\b")
_WATCHED = frozenset(
    [
        "NCCL_NET",
        "NCCL_NET_PLUGIN",
        "NCCL_IB_DISABLE",
        "NCCL_SOCKET_IFNAME",
        "NCCL_IB_HCA",
        "NCCL_IB_GID_INDEX",
        "NCCL_NET_GDR_LEVEL",
        "NCCL_ALGO",
        "NCCL_PROTO",
        "NCCL_P2P_DISABLE",
        "NCCL_SHM_DISABLE",
        "NCCL_DEBUG_SUBSYS",
        "NCCL_CONF_FILE",
        "FI_PROVIDER",
    ]
)


def transport(via: str) -> Fact | None:
    """Name the transport after `via`: ("net", (name, "gdr" or "")), ("intra", (kind,)) or nothing known."""
    net = _VIA_NET.match(via)
    if net:
        name = net["name"] or net["cut"] or f"COLLNET/{net['coll']}"
        return "net", (name.strip(), "gdr" if net["gdr"] or net["cgdr"] else "")
    intra = _VIA_INTRA.match(via)
    if intra:
        return "intra", ("SHM" if "shared memory" in intra[1] else intra[1],)
    return None


def read(message: Message) -> Fact | None:
    """Tell what a message says; None where it says nothing about networks."""
    body = message.body
    loud = message.level in {"WARN", "ERROR"}
    if not loud and not DECISIVE_WORDS.search(body):
        return None
    if " via " in body:
        channel = _CHANNEL.match(body)
        if channel:
            return _channel(channel)
    fact = _plain(body)
    if fact and not loud:
        return fact
    known = sign(body, loud=loud)
    if known:
        return "sign", known
    if loud:
        return "warn", (message.where,)
    trail = _TRAIL.search(body)
    if trail and trail["code"] not in {"0", "7"}:
        return "trail", (trail["place"], trail["code"])
    return None


def _channel(channel: re.Match[str]) -> Fact | None:
    fact = transport(channel["via"])
    if fact is None:
        return None
    rank = channel["dst"] if channel["way"] == "receive" else channel["src"]
    return fact[0], (*fact[1], rank or "")


def _plain(body: str) -> Fact | None:  # noqa: C901, PLR0912 - one question after another, none nested
    """Answer what calm messages say."""
    if match := _COMM.match(body):
        nodes, comm = _NODES.search(match["rest"]), _COMM_ID.search(match["rest"])
        phase = "start" if "START" in match["rest"] else "complete" if "COMPLETE" in match["rest"] else ""
        if phase and ("Destroy" in match["rest"] or "Abort" in match["rest"] or "Finalize" in match["rest"]):
            phase = "end"
        return "comm", (
            match["at"],
            match["rank"],
            match["n"],
            nodes[1] if nodes else "",
            comm[1] if comm else "",
            phase,
        )
    if match := _CHOICE.match(body):
        return "choice", (match["name"], "assigned" if body.startswith("Assigned") else "")
    if match := _RINGS.match(body):
        return "rings", (match["what"], match["gdr"] or "")
    if match := _PROVIDER.match(body):
        return "provider", (match["name"], match["fabric"] or "", match["nics"] or "")
    if match := _PLUGIN.match(body):
        return "plugin", (match[1],)
    if match := _LIBFABRIC.match(body):
        return "libfabric", (match[1],)
    if match := _VERSION.match(body):
        return "version", (("RCCL " if match["lib"] == "R" else "") + match["version"],)
    if match := _DEVICES.match(body):
        return "devices", (_fabric(match["list"]), match["list"])
    if match := _SOCKET.match(body):
        return "socket", ((match["list"] or "").strip(),)
    if match := _ORDER.match(body):
        return "ranks", (str(len(match["ranks"].split())),)
    if match := _LOADED.search(body):
        return "loaded", (match["net"] or match["path"] or match["p2p"] or match["ext"],)
    if (match := _ENV.match(body)) and match["name"] in _WATCHED and not sign(body, loud=False):
        return "env", (match["name"], match["value"])
    if match := _OTHER.match(body):
        return "other", (match["name"],)
    if match := _AWS.search(body):
        return "aws", (match["type"] or "",)
    return None


def _fabric(devices: str) -> str:
    """Name the fabric of a device list like `[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE`; InfiniBand wins where both are."""
    if "/IB" in devices:
        return "ib"
    return "roce" if "/RoCE" in devices else "ib"
