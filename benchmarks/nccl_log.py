"""Write a big NCCL log and time `drydock nccl` against `grep -c NCCL` on it, in one run.

    python benchmarks/nccl_log.py                     1 GB, 4096 ranks, in a temporary folder
    python benchmarks/nccl_log.py --gigabytes 0.2     a smaller one
    python benchmarks/nccl_log.py --keep big.log      keep the log, or use it again where it exists

The log is what 512 nodes of 8 GPUs print with NCCL_DEBUG=INFO (NCCL 2.27, aws-ofi-nccl 1.17 on EFA) for a
world communicator, for the groups of tensor, pipeline, data and expert parallelism, and for the connections of
an all-to-all among 256 experts, in the order in which 64 nodes at a time write into one file; then training
output, until the size is reached.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

RANKS = 4096
PER_NODE = 8
CHANNELS = 16
EXPERTS = 256
DRYDOCK = "import sys; from buildspec.cli import main; sys.exit(main())"
# At a time so many nodes write into the log in turns.
TURNS = 64


def host(node: int) -> str:
    """Name a node as EC2 does."""
    return f"ip-10-{20 + node // 256}-{node % 256}-{17 + node % 191}"


def start_lines(rank: int) -> Iterator[str]:
    """What a process prints before its first communicator."""
    node, device = divmod(rank, PER_NODE)
    who = f"{host(node)}:{4000 + device}:{4000 + device} [{device}] NCCL INFO "
    thread = f"{host(node)}:{4000 + device}:{5200 + device} [{device}] NCCL INFO "
    yield f"{who}NCCL_SOCKET_IFNAME set by environment to eth0"
    yield f"{who}Bootstrap: Using eth0:10.{20 + node // 256}.{node % 256}.{17 + node % 191}<0>"
    yield f"{who}cudaDriverVersion 12080"
    yield f"{who}NCCL version 2.27.7+cuda12.8"
    yield f"{thread}NET/Plugin: Loaded net plugin Libfabric (v10)"
    yield f"{thread}Successfully loaded external plugin libnccl-net-ofi.so"
    yield f"{thread}NET/OFI Initializing aws-ofi-nccl 1.17.1"
    yield f"{thread}NET/OFI Using Libfabric version 2.3"
    yield f"{thread}NET/OFI Using CUDA driver version 12080 with runtime 12080"
    yield f"{thread}NET/OFI Configuring AWS-specific options"
    yield f"{thread}NET/OFI Setting provider_filter to efa"
    yield f"{thread}NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)"
    yield f"{thread}NET/OFI Using transport protocol RDMA (platform set)"
    for group in range(8):
        for nic in range(4):
            yield f"{thread}NET/OFI NIC group {group} device #{nic} 0000:{(group * 17 + nic + 82) % 256:02x}:00.0"
    yield f"{thread}Initialized NET plugin Libfabric"
    yield f"{thread}Assigned NET plugin Libfabric to comm"
    yield f"{thread}Using network Libfabric"


def communicator_lines(rank: int, members: list[int], number: int, seed: random.Random) -> Iterator[str]:
    """What a rank prints while one communicator is made."""
    node, device = divmod(rank, PER_NODE)
    size, at = len(members), members.index(rank)
    who = f"{host(node)}:{4000 + device}:{5200 + device + 10 * number} [{device}] NCCL INFO "
    address, comm = (
        f"0x{0x55D000000000 + (rank << 16) + (number << 8):x}",
        f"0x{hash((members[0], number)) & (2**60 - 1):x}",
    )
    nodes = len({member // PER_NODE for member in members})
    last = (
        f"comm {address} rank {at} nranks {size} cudaDev {device} nvmlDev {device} busId"
        f" {device * 0x11000 + 0x53000:x} commId {comm}"
    )
    yield f"{who}Using network Libfabric"
    yield f"{who}[Rank {at}] ncclCommInitRankConfig {last} - Init START"
    yield f"{who}RAS client listening socket at 127.0.0.1<28028>"
    yield f"{who}Setting affinity for GPU {device} to ffffffff,ffff0000,00000000,0000ffff"
    yield f"{who}NVLS multicast support is available on dev {device} (NVLS_NCHANNELS 16)"
    yield (
        f"{who}comm {address} rank {at} nRanks {size} nNodes {nodes} localRanks {size // nodes} localRank"
        f" {at % (size // nodes)} MNNVL 0"
    )
    trees = " ".join(
        f"[{c}] {(at + 1) % size}/{(at + 9) % size}/-1->{at}->{(at - 1) % size}" for c in range(CHANNELS)
    )
    yield f"{who}Trees {trees}"
    yield f"{who}P2P Chunksize set to {131072 if nodes > 1 else 524288}"
    after, before = members[(at + 1) % size], members[at - 1]
    for channel in range(CHANNELS):
        if before // PER_NODE != node:
            yield (
                f"{who}Channel {channel:02d}/0 : {(at - 1) % size}[{before % 8}] -> {at}[{device}] [receive] via"
                f" NET/Libfabric/{device * 4}/GDRDMA"
            )
        if after // PER_NODE != node:
            yield (
                f"{who}Channel {channel:02d}/0 : {at}[{device}] -> {(at + 1) % size}[{after % 8}] [send] via"
                f" NET/Libfabric/{device * 4}/GDRDMA"
            )
        elif size > 1:
            yield f"{who}Channel {channel:02d}/0 : {at}[{device}] -> {(at + 1) % size}[{after % 8}] via P2P/CUMEM"
    yield f"{who}Connected all rings, use ring PXN 0 GDR 1"
    for channel in range(CHANNELS):
        peer = (at + 8) % size
        if nodes > 1:
            yield (
                f"{who}Channel {channel:02d}/0 : {at}[{device}] -> {peer}[{device}] [send] via"
                f" NET/Libfabric/{device * 4}/GDRDMA"
            )
            yield (
                f"{who}Channel {channel:02d}/0 : {peer}[{device}] -> {at}[{device}] [receive] via"
                f" NET/Libfabric/{device * 4}/GDRDMA"
            )
        else:
            yield (
                f"{who}Channel {channel:02d}/0 : {at}[{device}] -> {(at - 1) % size}[{(device - 1) % 8}] via"
                " P2P/CUMEM"
            )
    yield f"{who}Connected all trees"
    yield f"{who}threadThresholds 8/8/64 | {size * 8}/8/64 | 512 | 512"
    yield (
        f"{who}{CHANNELS} coll channels, {CHANNELS} collnet channels, 16 nvls channels, {CHANNELS} p2p channels, 2"
        " p2p channels per peer"
    )
    yield f"{who}TUNER/Plugin: Using tuner plugin nccl_ofi_tuner"
    yield f"{who}ncclCommInitRankConfig {last} - Init COMPLETE"
    yield (
        f"{who}Init timings - ncclCommInitRankConfig: rank {at} nranks {size} total {seed.random() * 9:.2f}"
        " (kernels 0.31, alloc 1.18, bootstrap 0.22, allgathers 0.01, topo 0.77, graphs 0.02, connections 0.31,"
        " rest 0.03)"
    )


def expert_lines(rank: int, members: list[int], number: int) -> Iterator[str]:
    """What a rank prints when an all-to-all first connects it to every other rank of its group."""
    node, device = divmod(rank, PER_NODE)
    at = members.index(rank)
    who = f"{host(node)}:{4000 + device}:{5200 + device + 10 * number} [{device}] NCCL INFO "
    for there, peer in enumerate(members):
        for channel in (at % CHANNELS, (at + 8) % CHANNELS):
            ends = f"{at}[{device}] -> {there}[{peer % PER_NODE}]"
            if peer // PER_NODE != node:
                back = f"{there}[{peer % PER_NODE}] -> {at}[{device}]"
                yield f"{who}Channel {channel:02d}/1 : {ends} [send] via NET/Libfabric/{device * 4}/GDRDMA/Shared"
                yield (
                    f"{who}Channel {channel:02d}/1 : {back} [receive] via NET/Libfabric/{device * 4}/GDRDMA/Shared"
                )
            elif peer != rank:
                yield f"{who}Channel {channel:02d}/1 : {ends} via P2P/CUMEM"


def rank_lines(rank: int, seed: random.Random) -> Iterator[str]:
    """All NCCL lines of a rank: the world, then groups of tensor, pipeline, data and expert parallelism."""
    node = rank // PER_NODE
    yield from start_lines(rank)
    yield from communicator_lines(rank, list(range(RANKS)), 0, seed)
    yield from communicator_lines(rank, list(range(node * PER_NODE, (node + 1) * PER_NODE)), 1, seed)
    stage = node % 64
    yield from communicator_lines(
        rank, list(range(rank % PER_NODE + stage * PER_NODE, RANKS, 64 * PER_NODE)), 2, seed
    )
    first = node // 64 * 64
    peers = list(range(first * PER_NODE + rank % PER_NODE, (first + 64) * PER_NODE, PER_NODE))
    yield from communicator_lines(rank, peers, 3, seed)
    first = rank // EXPERTS * EXPERTS
    experts = list(range(first, first + EXPERTS))
    yield from communicator_lines(rank, experts, 4, seed)
    yield from expert_lines(rank, experts, 4)


def write_log(path: Path, size: int) -> None:
    """Write the log: the ranks' NCCL lines in turns, then training output up to the size."""
    seed = random.Random(20)
    with path.open("w", encoding="utf-8", buffering=1 << 20) as log:
        waiting = iter(range(RANKS))
        writers = [rank_lines(rank, seed) for rank in islice(waiting, TURNS * PER_NODE)]
        while writers and log.tell() < size * 0.8:
            for writer in list(writers):
                lines = list(islice(writer, seed.randrange(1, 6)))
                log.writelines(line + "\n" for line in lines)
                if not lines:
                    writers.remove(writer)
                    writers += [rank_lines(rank, seed) for rank in islice(waiting, 1)]
        step = 0
        while log.tell() < size:
            step += 1
            for rank in range(0, RANKS, PER_NODE):
                log.write(
                    f"[{host(rank // PER_NODE)}:rank{rank}] iteration {step:8d}/ 500000 | consumed samples:"
                    f" {step * 4096:12d} | elapsed time per iteration (ms): {seed.random() * 900:.1f} | learning"
                    f" rate: {seed.random() / 1e4:.6E} | lm loss: {seed.random() * 9:.6E} | grad norm:"
                    f" {seed.random():.3f} |\n"
                )


def watch_memory(process: subprocess.Popen[bytes], peak: list[int]) -> None:
    """Follow the resident memory of a process and its children, all together, until it ends."""
    while process.poll() is None:
        total = 0
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            for pid in [str(process.pid), *children]:
                total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
        except OSError:
            # One of them has just ended.
            continue
        peak[0] = max(peak[0], total)
        time.sleep(0.02)


def timed(command: list[str]) -> tuple[float, int, str]:
    """Run a command; give seconds, peak memory in bytes, and its output."""
    peak = [0]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        watcher = threading.Thread(target=watch_memory, args=(process, peak))
        watcher.start()
        output = process.stdout.read().decode() if process.stdout else ""
        process.wait()
        seconds = time.perf_counter() - began
        watcher.join()
    if process.returncode:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    return seconds, peak[0], output


def main() -> int:
    """Write the log, run both, print the figures; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = arguments.keep or Path(folder) / "nccl.log"
        if not log.exists():
            write_log(log, int(arguments.gigabytes * 1e9))
        timed(["grep", "-c", "NCCL", str(log)])  # reads the file into the page cache for both
        grep_seconds, _, count = timed(["grep", "-c", "NCCL", str(log)])
        seconds, peak, verdict = timed([sys.executable, "-c", DRYDOCK, "nccl", "--expect", "efa-gdr", str(log)])
        grep_seconds = min(grep_seconds, timed(["grep", "-c", "NCCL", str(log)])[0])
    print(verdict.splitlines()[0] if verdict else "no verdict")
    print(f"{log.name}: {int(count)} lines with NCCL; grep -c {grep_seconds:.2f} s; drydock nccl {seconds:.2f} s")
    print(
        f"ratio {seconds / grep_seconds:.1f} (limit 6); peak memory {peak / 1e6:.0f} MB over all processes (limit"
        " 250)"
    )
    return 0 if seconds <= 6 * grep_seconds and peak < 250e6 else 1


if __name__ == "__main__":
    sys.exit(main())
