"""Known bugs are told for the very versions in the log."""

from __future__ import annotations

import pytest

from validate.nccl import judge_text


def _issues(nccl: str, plugin: str, libfabric: str = "2.3", extra: str = "") -> set[str]:
    log = (
        f"a:1:2 [0] NCCL INFO NCCL version {nccl}+cuda12.8\n"
        f"a:1:2 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl {plugin}\n"
        f"a:1:2 [0] NCCL INFO NET/OFI Using Libfabric version {libfabric}\n"
        f"{extra}a:1:2 [0] NCCL INFO Using network Libfabric\n"
    )
    return {issue.id for issue in judge_text(log).known_issues}


@pytest.mark.parametrize(
    ("nccl", "plugin", "libfabric", "found"),
    [
        (
            "2.28.3",
            "1.17.1",
            "2.3",
            {"plugin-1.17.1-nccl-2.28", "nccl-2.28.3-assignment-crash", "nccl-2.28-proxy-hang"},
        ),
        ("2.28.9", "1.17.2", "2.3", set()),
        ("2.29.7", "1.19.0", "2.4", {"plugin-1.19-multirecv"}),
        ("2.29.7", "1.19.2", "2.4", set()),
        ("2.20.5", "1.9.0-aws", "1.18", {"plugin-1.9.0-libfabric", "nccl-2.19-old-libfabric"}),
        ("2.27.7", "GitHub-dev", "2.3", set()),
    ],
)
def test_versions_decide(nccl: str, plugin: str, libfabric: str, found: set[str]) -> None:
    assert _issues(nccl, plugin, libfabric) == found


def test_settings_decide_where_they_matter() -> None:
    extra = "a:1:2 [0] NCCL INFO NCCL_ALGO set by environment to ring\n"
    assert _issues("2.27.7", "1.17.2", extra=extra) == {"plugin-tuner-segfault"}
    assert _issues("2.27.7", "1.20.0", extra=extra) == set()
