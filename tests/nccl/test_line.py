"""What stands around messages is taken off."""

from __future__ import annotations

import pytest

from validate.nccl.line import decode, messages, owner


def _one(raw: bytes) -> tuple[str, str]:
    found = messages(decode(raw))
    assert len(found) == 1
    return found[0].owner, found[0].body


@pytest.mark.parametrize(
    "raw",
    [
        b"h-1:10:20 [3] NCCL INFO Using network IB",
        b"[1,3]<stdout>:h-1:10:20 [3] NCCL INFO Using network IB",
        (
            b"(RayTrainWorker pid=7, ip=10.0.0.1) h-1:10:20 [3] NCCL INFO Using network IB [repeated 15x across"
            b" cluster]"
        ),
        b"2025-04-02T11:09:10.07Z stderr F h-1:10:20 [3] NCCL INFO Using network IB\r",
        b"\x1b[36m(pid=1)\x1b[0m h-1:10:20 [3] NCCL \x1b[32mINFO\x1b[0m Using network IB",
        b"[36m(pid=1)[0m h-1:10:20 [3] NCCL INFO Using network IB[32m [repeated 3x across cluster][0m",
        b"ESC[36m(pid=1)ESC[0m h-1:10:20 [3] NCCL INFO Using network IB",
        b'{"log":"h-1:10:20 [3] NCCL INFO Using network IB\\n","stream":"stdout"}',
        b"  | 2025-05-16T09:00:01.101-07:00h-1:10:20 [3] NCCL INFO Using network IB |",
        b'{"stream":"stdout","log":"h-1:10:20 [3] NCCL INFO Using network IB\\n"}',
        b'{"message": "h-1:10:20 [3] NCCL INFO Using network IB"}',
        b'level=info msg="h-1:10:20 [3] NCCL INFO Using network IB" pod=train-0',
        b"pytorch-example-0 bad-node: h-1:10:20 [3] NCCL INFO Using network IB",
        b"\xe2\x86\x90[36m(pid=1)\xe2\x86\x90[0m h-1:10:20 [3] NCCL INFO Using network IB",
        b"# MAGIC     h-1:10:20 [3] NCCL INFO Using network IB",
        b"    h-1:10:20 [3] NCCL INFO Using network IB [cite: 1889]",
        b"50%|#####     | 1/2 [00:01<?, ?it/s]h-1:10:20 [3] NCCL INFO Using network IB",
        b"`h-1:10:20 [3] NCCL INFO Using network IB`",
    ],
)
def test_prefixes_and_trailers_go(raw: bytes) -> None:
    assert _one(raw) == ("h-1:10:20 [3", "Using network IB")


def test_warning_names_its_place() -> None:
    raw = b"[2026-08-08 07:15:02] h:1:2 [0] int make(plugin_t**):360 NCCL WARN NET/OFI failed"
    (found,) = messages(decode(raw))
    assert (found.level, found.where, found.body) == ("WARN", "int make(plugin_t**):360", "NET/OFI failed")


def test_several_messages_in_one_line() -> None:
    raw = (
        b"h1:1:2 [0] NCCL INFO Using network Socketh2:3:4 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via"
        b" NET/Socket/0h2:3:4 [1] NCCL INFO Connected all rings"
    )
    assert [(found.owner, found.body) for found in messages(decode(raw))] == [
        ("h1:1:2 [0", "Using network Socket"),
        ("h2:3:4 [1", "Channel 00/0 : 0[0] -> 1[0] via NET/Socket/0"),
        ("h2:3:4 [1", "Connected all rings"),
    ]


@pytest.mark.parametrize(
    "raw",
    [
        b"+ echo 'h:1:2 [0] NCCL INFO Using network IB'",
        b"echo h:1:2 [0] NCCL INFO Using network IB",
        b"# good: h:1:2 [0] NCCL INFO Using network IB",
        b"Look for: NCCL INFO Using network IB",
        b"You should see NCCL INFO Using network IB",
        b"export NCCL_DEBUG=INFO",
        b"grep 'NCCL INFO' out.log",
    ],
)
def test_shown_messages_are_none(raw: bytes) -> None:
    assert messages(decode(raw)) == []


def test_loose_messages_have_no_owner() -> None:
    assert _one(b"[1] NCCL INFO NET/Plugin : No plugin found") == ("", "NET/Plugin : No plugin found")


def test_owner_is_split() -> None:
    assert owner("h-1:10:20 [3") == ("h-1", "10", "20", "3")
    assert owner("") == ("", "", "", "")
    assert owner("[pod-name]:10:20 [3") == ("[pod-name]", "10", "20", "3")
