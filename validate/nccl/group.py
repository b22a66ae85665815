"""Which ranks belong to one communicator, and whether it spans nodes."""

from __future__ import annotations

from dataclasses import dataclass, field

from validate.nccl.process import CommRank, Process

__all__ = ["ONE_NODE", "Group", "group"]

# More ranks than GPUs in any one node that NCCL runs on without saying nNodes.
ONE_NODE = 8


@dataclass(slots=True)
class Group:
    """The ranks of one communicator with their processes."""

    id: str
    members: list[tuple[Process, CommRank]] = field(default_factory=list)

    @property
    def size(self) -> int | None:
        """How many ranks the communicator has, as its members say."""
        return max((rank.size for _, rank in self.members if rank.size is not None), default=None)

    @property
    def nodes(self) -> int | None:
        """How many nodes it spans, as its members say."""
        return max((rank.nodes for _, rank in self.members if rank.nodes is not None), default=None)

    @property
    def hosts(self) -> list[str]:
        """Its hosts, in order of appearance."""
        return list(dict.fromkeys(process.host for process, _ in self.members))

    def spans_nodes(self) -> bool | None:
        """Tell whether it spans nodes; None where nothing says so."""
        if self.nodes is not None:
            return self.nodes > 1
        size = self.size
        if size == 1:
            return False
        if len(self.hosts) > 1:
            return True
        if size is not None:
            seen = {rank.rank for _, rank in self.members if rank.rank is not None}
            if len(seen) >= size:
                return False
            if size > ONE_NODE:
                return True
        if any(rank.channels for _, rank in self.members):
            return True
        return None


def group(processes: list[Process]) -> list[Group]:
    """Put ranks together by commId; where a version prints none, by size and order of creation."""
    groups: dict[str, Group] = {}
    homeless: list[tuple[Process, CommRank]] = []
    for process in processes:
        counts: dict[tuple[str, int | None], int] = {}
        for rank in process.ranks():
            if rank.comm_id:
                key = rank.comm_id
            elif rank.size is None:
                homeless.append((process, rank))
                continue
            else:
                turn = counts.get((rank.device, rank.size), 0)
                counts[rank.device, rank.size] = turn + 1
                key = _unnamed(groups, process, rank, turn)
            groups.setdefault(key, Group(key)).members.append((process, rank))
    if homeless:
        # Cut logs: a rank whose communicator line is missing belongs to the only one there is, if it has room.
        only = next(iter(groups.values())) if len(groups) == 1 else None
        room = only is not None and len(only.members) + len(homeless) <= (only.size or 0)
        home = only if only is not None and room else groups.setdefault("unnamed", Group("unnamed"))
        home.members += homeless
    for found in groups.values():
        found.members.sort(
            key=lambda member: (member[1].rank is None, member[1].rank or 0, member[0].host, member[0].pid)
        )
    return list(groups.values())


def _unnamed(groups: dict[str, Group], process: Process, rank: CommRank, turn: int) -> str:
    """Find the communicator without an id that a rank fits in: same size and turn, its number still free."""
    stem = f"{rank.size} ranks, number {turn + 1}"
    for copy in range(1, 1 << 20):
        key = stem if copy == 1 else f"{stem}, copy {copy}"
        known = groups.get(key)
        if known is None:
            return key
        taken = {member.rank for _, member in known.members if member.rank is not None}
        if rank.rank is None or rank.rank not in taken:
            same_host = process.host in known.hosts
            if rank.size is None or same_host or len(known.members) < rank.size:
                return key
    return stem
