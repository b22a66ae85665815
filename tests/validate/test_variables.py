"""Variables that an image must not set: where they are found, and which values are harmless."""

from __future__ import annotations

import pytest

from validate.variables import Setting, families, harmful, settings


def found(environment: dict[str, str], configuration: dict[str, str] | None = None) -> list[Setting]:
    rows = [row for family in families() for row in harmful(settings(environment, configuration or {}), family)]
    assert len(rows) == len(set(rows)), "a variable belongs to two families"
    return rows


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FI_PROVIDER", "efa"),
        ("NCCL_SOCKET_IFNAME", "eth0"),
        ("GLOO_SOCKET_IFNAME", "ens5,ens6"),
        ("NCCL_NET", "Socket"),
        ("NCCL_IB_DISABLE", "1"),
        ("RDMAV_FORK_SAFE", "1"),
        ("FI_EFA_USE_DEVICE_RDMA", "1"),
        ("OFI_NCCL_PROTOCOL", "RDMA"),
        ("CUDA_VISIBLE_DEVICES", "0"),
        ("RAY_ADDRESS", "10.0.0.1:6379"),
    ],
)
def test_harmful(name: str, value: str) -> None:
    assert found({name: value}) == [Setting("ENV of the image", name, value)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_SOCKET_IFNAME", "^lo,docker"),
        ("NCCL_DEBUG", "INFO"),
        ("FI_PROVIDER", ""),
        ("RAY_USAGE_STATS_ENABLED", "0"),
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("LD_LIBRARY_PATH", "/opt/lib"),
    ],
)
def test_harmless(name: str, value: str) -> None:
    assert found({name: value}) == []


def test_places() -> None:
    configuration = {
        "/etc/profile.d/efa.sh": "# FI_PROVIDER=tcp\nexport PATH=/x; export FI_PROVIDER='efa'\n",
        "/etc/nccl.conf": "NCCL_IB_DISABLE = 1\n",
        "/etc/environment": 'GLOO_SOCKET_IFNAME="eth0"\n',
        "/etc/ssh/sshd_config": "FI_PROVIDER=tcp\n",
    }
    assert sorted(str(row) for row in found({}, configuration)) == sorted(
        str(row)
        for row in (
            Setting("/etc/profile.d/efa.sh:2", "FI_PROVIDER", "efa"),
            Setting("/etc/nccl.conf:1", "NCCL_IB_DISABLE", "1"),
            Setting("/etc/environment:1", "GLOO_SOCKET_IFNAME", "eth0"),
        )
    )
