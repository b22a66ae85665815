"""Measured bandwidth is compared with the instance type's own rates."""

from __future__ import annotations

import pytest

from buildspec.errors import BadInputError
from validate.nccl import Judgement, judge_text
from validate.nccl.bandwidth import check, instances, size_text

_HEAD = """#  Rank  0 Group  0 Pid  100 on  a  device  0 [0000:53:00] NVIDIA H100 80GB HBM3
#  Rank  8 Group  0 Pid  100 on  b  device  0 [0000:53:00] NVIDIA H100 80GB HBM3
a:100:200 [0] NCCL INFO Using network Socket
#       size         count      type   redop    root     time   algbw   busbw #wrong
"""


def _table(busbw: float, size: int = 1 << 30, instance: str = "p5.48xlarge") -> Judgement:
    row = (
        f"  {size}     {size // 4}     float     sum      -1   165432    6.49   {busbw:.2f}      0   165001   "
        f" 6.51   {busbw - 0.1:.2f}      0\n"
    )
    return judge_text(_HEAD + row, instance=instance)


def test_tcp_speed_is_called_so() -> None:
    (said,) = _table(12.1).bandwidth_says
    assert "12.1 GB/s" in said
    assert "what TCP gives" in said
    assert "331.5 GB/s was measured at 1 GiB" in said
    assert "expect 240 GB/s or more" in said


def test_efa_speed_is_called_so() -> None:
    assert "this is what EFA gives" in _table(320.0).bandwidth_says[0]


def test_between_is_less_than_expected() -> None:
    assert "less than expected" in _table(100.0).bandwidth_says[0]


def test_every_type_has_its_own_limit() -> None:
    assert "this is what EFA gives" in _table(40.0, instance="p4d.24xlarge").bandwidth_says[0]
    assert "less than expected" in _table(40.0, instance="p5en.48xlarge").bandwidth_says[0]


def test_small_messages_are_not_judged() -> None:
    assert "bound by latency" in _table(3.0, size=8 << 20).bandwidth_says[0]


def test_without_instance_nothing_is_claimed() -> None:
    assert "Give --instance" in _table(12.0, instance="").bandwidth_says[0]


def test_instance_is_taken_from_the_log() -> None:
    log = _HEAD + "a:100:200 [0] NCCL INFO NET/OFI Running on p4d.24xlarge platform, Setting NCCL_TOPO_FILE\n"
    judgement = judge_text(log + '{"collective": "all_reduce", "size": 1073741824, "busbw": 45.0}\n')
    assert judgement.instance == "p4d.24xlarge"
    assert judgement.bandwidth[0].collective == "all_reduce"
    assert "this is what EFA gives" in judgement.bandwidth_says[0]


def test_old_tables_and_prefixed_rows_are_read() -> None:
    log = (
        "[1,0]<stdout>:   536870912     134217728     float     sum    80101    6.70   12.57  2e-07    80002   "
        " 6.71   12.58  2e-07\n"
    )
    (row,) = judge_text(log).bandwidth
    assert (row.size, row.busbw) == (536870912, 12.58)


def test_one_node_measures_no_network() -> None:
    log = (
        "#  Rank  0 Group  0 Pid  100 on  a  device  0\na:100:200 [0] NCCL INFO Using network Socket\n"
        "  1048576  262144  float  sum  -1  50.1  20.9  36.6  0  50.0  20.9  36.7  0\n"
    )
    assert "inside one node" in judge_text(log).bandwidth_says[0]


def test_unknown_instance_names_the_nearest() -> None:
    check("")
    check("p5.48xlarge")
    with pytest.raises(BadInputError) as error:
        check("p5.48xlarg")
    assert "did you mean p5.48xlarge?" in str(error.value)
    assert len(instances()) > 20


@pytest.mark.parametrize(
    ("size", "text"), [(8, "8 B"), (1024, "1 KiB"), (1 << 30, "1 GiB"), (1536, "1.5 KiB"), (3 << 20, "3 MiB")]
)
def test_sizes_are_written_as_people_do(size: int, text: str) -> None:
    assert size_text(size) == text
