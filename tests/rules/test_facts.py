"""The facts that come with Drydock: complete, sourced, and without contradictions among themselves."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from buildspec.rules import facts
from buildspec.rules.catalog import Snapshot
from buildspec.rules.registry import check_image, kind_of
from buildspec.rules.snapshot import RECORDED
from buildspec.rules.versions import parse
from tests.rules.checkout import TRAIN, judge, write, write_lock

FACTS = facts.load()
TABLES: dict[str, tuple[dict[str, facts.Source], list[Any]]] = {
    "efa": (FACTS.efa.sources, [*FACTS.efa.installers, *FACTS.efa.systems.values()]),
    "plugin": (FACTS.plugin.sources, list(FACTS.plugin.releases)),
    "nccl": (FACTS.nccl.sources, list(FACTS.nccl.releases)),
    "cuda": (
        FACTS.cuda.sources,
        [
            *FACTS.cuda.toolkits.values(),
            *FACTS.cuda.majors.values(),
            *FACTS.cuda.branches.values(),
            *FACTS.cuda.capabilities.values(),
        ],
    ),
    "instances": (FACTS.instances.sources, list(FACTS.instances.families.values())),
    "systems": (FACTS.systems.sources, [*FACTS.systems.suites.values(), *FACTS.systems.pythons.values()]),
    "kuberay": (FACTS.kuberay.sources, [FACTS.kuberay.http_probes, *FACTS.kuberay.tools.values()]),
    "registries": (FACTS.registries.sources, list(FACTS.registries.registries.values())),
    "known": (FACTS.known.sources, list(FACTS.known.rules)),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_fact_has_a_source_with_an_address(name: str) -> None:
    sources, rows = TABLES[name]
    used = {source for row in rows for source in row.source}
    used |= {source for row in rows if isinstance(row, facts.Installer) for source in row.sha256_source}
    assert used <= sources.keys()
    assert all(source.url.startswith("https://") for source in sources.values())
    assert facts.links(sources, rows[0])


def test_installers_are_told_once_and_newest_first() -> None:
    versions = [parse(row.version) for row in FACTS.efa.installers]
    assert versions == sorted(set(versions), reverse=True)
    dates = [row.date for row in FACTS.efa.installers]
    assert dates == sorted(dates, reverse=True)


def test_no_two_installers_have_one_checksum() -> None:
    sums = [row.sha256 for row in FACTS.efa.installers if row.sha256]
    assert len(sums) == len(set(sums))
    assert all(row.sha256_source for row in FACTS.efa.installers if row.sha256)


def test_every_plugin_of_an_installer_is_recorded() -> None:
    """Else the rule about plugin APIs could be decided for no stack that uses it."""
    plugins = {parse(row.version) for row in FACTS.plugin.releases}
    assert {parse(row.plugin) for row in FACTS.efa.installers if row.plugin != "none"} <= plugins


def test_every_instance_has_a_known_capability_and_every_suite_a_python() -> None:
    assert {row.capability for row in FACTS.instances.families.values()} <= FACTS.cuda.capabilities.keys()
    for row in FACTS.instances.families.values():
        assert row.plugin_min.keys() <= row.efa.keys()
        assert set(row.no_rdma) <= row.efa.keys()
    supported = [row for row in FACTS.systems.suites.values() if row.end > date(2026, 11, 30)]
    assert {f"3.{Version(row.python).minor}" for row in supported} <= FACTS.systems.pythons.keys()


def test_toolkits_and_their_majors_agree() -> None:
    for name, row in FACTS.cuda.toolkits.items():
        assert parse(row.driver) >= parse(FACTS.cuda.majors[Version(name).major].driver)
    for capability in FACTS.cuda.capabilities.values():
        assert any(SpecifierSet(capability.cuda).contains(name) for name in FACTS.cuda.toolkits)


def test_ids_of_known_problems_are_unique_and_their_changes_possible() -> None:
    ids = [rule.id for rule in FACTS.known.rules]
    assert len(ids) == len(set(ids))
    for rule in FACTS.known.rules:
        assert rule.change in rule.when.ranges()


def test_the_snapshot_knows_what_it_promises() -> None:
    snapshot = Snapshot.shipped()
    assert set(snapshot.distributions) == set(RECORDED)
    for name in RECORDED:
        page = snapshot.page(name)
        assert page is not None
        assert page.releases
        for version in page.releases:
            assert snapshot.metadata(name, str(version)) is not None
    assert snapshot.page("numpy") is None
    assert snapshot.metadata("torch", "0.1") is None


def test_nothing_names_a_package_registry(root: Path) -> None:
    """The index is the user's to choose."""
    hosts = ["pypi" + ".org", "pythonhosted" + ".org"]
    folders = ["buildspec", "docs", "images"]
    files = [
        file
        for folder in folders
        for file in (root / folder).rglob("*")
        if file.suffix in {".py", ".yaml", ".json", ".md", ".txt", ".in"}
    ]
    assert len(files) > 20
    assert [str(file) for file in files for host in hosts if host in file.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize(
    ("reference", "kind"),
    [
        ("123456789012.dkr.ecr.eu-west-1.amazonaws.com/drydock/train:1", "ecr"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/a", "ecr"),
        ("public.ecr.aws/drydock/train", "ecr-public"),
        ("ghcr.io/drydock/train", "ghcr"),
        ("127.0.0.1:5000/train", None),
        ("public.ecr.aws.example.org/train", None),
    ],
)
def test_registries_are_known_by_their_host(reference: str, kind: str | None) -> None:
    assert kind_of(reference, FACTS) == kind


def test_images_are_judged_for_their_registry() -> None:
    gb = 10**9
    layers = [2 * gb, 10 * gb + 1, 12 * gb]
    by_kind = {
        kind: [finding.pinned for finding in check_image(FACTS, ("stacks", "a"), kind=kind, layers=layers)]
        for kind in (None, "ecr", "ecr-public", "ghcr")
    }
    assert by_kind == {
        None: [],
        "ecr": [],
        "ecr-public": ["layer 2 of 12 GB"],
        "ghcr": ["layer 1 of 10 GB", "layer 2 of 12 GB"],
    }


def test_tags_and_numbers_of_layers_have_limits() -> None:
    tags = ["train-2.60", "a" * 128, "a" * 129, ".hidden", "-dash", "with space", "ümlaut"]
    found = list(check_image(FACTS, ("stacks", "a"), tags=tags, layers=[1] * 128))
    assert [finding.pinned for finding in found] == [
        f"tag {'a' * 129}", "tag .hidden", "tag -dash", "tag with space", "tag ümlaut", "128 layers",
    ]  # fmt: skip


def test_a_registry_that_may_be_too_small_is_told(tmp_path: Path) -> None:
    project = write(tmp_path / "checkout", {"train-2.60": TRAIN}, top={"registries": ["ecr", "ghcr", "gcr"]})
    found = {(f.rule, f.severity, ".".join(f.path)) for f in judge(project)}
    # 12 GB are allowed in the test's matrix; ECR takes 52,000 MiB a layer, GitHub 10 GB.
    assert {row for row in found if row[0].startswith("registry")} == {
        ("registry.layer_size", "unknown", "images.train.size_budget_gb"),
        ("registry.layer_size", "unknown", "images.llm.size_budget_gb"),
        ("registry.known", "unknown", "registries.2"),
    }


def test_a_lock_for_one_architecture_proves_nothing_about_the_other(tmp_path: Path) -> None:
    project = write(tmp_path / "checkout", {"train-2.60": TRAIN | {"ray": "2.60.7"}})
    write_lock(project, "train-2.60", "ray==2.60.7\n")
    assert [f.essential for f in judge(project) if f.rule == "packages.exists"] == [False]
    assert [f.essential for f in judge(project, arch="aarch64") if f.rule == "packages.exists"] == [True]
