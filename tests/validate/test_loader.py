"""The loader's search on facts: each rule of ld.so(8), and their order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.validate.sample import SITE, facts, library
from validate.facts import Facts
from validate.loader import Loader, Resolved

USER = "/opt/app/lib/user.so"
EVERYWHERE = [
    library("/opt/app/lib/libx.so.1", soname="libx.so.1"),
    library("/opt/other/libx.so.1", soname="libx.so.1"),
    library("/usr/lib/x86_64-linux-gnu/libx.so.1", soname="libx.so.1"),
    library("/opt/cached/libx.so.1", soname="libx.so.1"),
]


def image(cached: bool = True, **user: Any) -> Facts:
    cache = [["libx.so.1", "/opt/cached/libx.so.1"]] if cached else []
    return facts(elf_rows=[library(USER, needed=["libx.so.1"], **user), *EVERYWHERE], loader_cache=cache)


def resolve(seen: Facts, *library_path: str) -> Resolved | None:
    return Loader(seen, library_path).resolve("libx.so.1", seen.elf_by_path[USER])


def test_cache_before_default_folders() -> None:
    assert resolve(image()) == Resolved("/opt/cached/libx.so.1", "the loader cache")
    assert resolve(image(cached=False)) == Resolved("/usr/lib/x86_64-linux-gnu/libx.so.1", "the default folders")


def test_runpath_before_cache() -> None:
    assert resolve(image(runpath="$ORIGIN")) == Resolved("/opt/app/lib/libx.so.1", f"RUNPATH of {USER}")
    assert resolve(image(runpath="${ORIGIN}/../lib")) == Resolved("/opt/app/lib/libx.so.1", f"RUNPATH of {USER}")


def test_library_path_before_runpath_and_after_rpath() -> None:
    assert resolve(image(runpath="$ORIGIN"), "/opt/other") == Resolved("/opt/other/libx.so.1", "LD_LIBRARY_PATH")
    assert resolve(image(rpath="$ORIGIN"), "/opt/other") == Resolved("/opt/app/lib/libx.so.1", f"RPATH of {USER}")


def test_rpath_is_ignored_beside_runpath() -> None:
    assert resolve(image(rpath="$ORIGIN", runpath="/nowhere")) == Resolved(
        "/opt/cached/libx.so.1", "the loader cache"
    )


def test_rpath_of_the_one_that_loaded_it() -> None:
    seen = facts(
        elf_rows=[
            library(USER, needed=["libx.so.1"]),
            library("/opt/other/parent.so", needed=["user.so"], rpath="$ORIGIN"),
            *EVERYWHERE,
        ]
    )
    parent = seen.elf_by_path["/opt/other/parent.so"]
    found = Loader(seen).resolve("libx.so.1", seen.elf_by_path[USER], [parent])
    assert found == Resolved("/opt/other/libx.so.1", "RPATH of /opt/other/parent.so")


def test_library_of_another_machine_is_passed_over() -> None:
    seen = facts(
        elf_rows=[
            library(USER, needed=["libx.so.1"], runpath="/opt/arm:/opt/other"),
            library("/opt/arm/libx.so.1", machine=183),
            EVERYWHERE[1],
        ]
    )
    assert resolve(seen) == Resolved("/opt/other/libx.so.1", f"RUNPATH of {USER}")


def test_links_of_folders_and_libraries() -> None:
    seen = facts(
        elf_rows=[library(USER, needed=["libx.so.1"]), library("/usr/lib/libx.so.1.2", soname="libx.so.1")],
        library_links={"/usr/lib/libx.so.1": "libx.so.1.2"},
    )
    assert resolve(seen) == Resolved("/usr/lib/libx.so.1.2", "the default folders")


def test_name_with_a_slash_is_a_path() -> None:
    seen = facts(elf_rows=[library(USER, needed=["$ORIGIN/libx.so.1"]), *EVERYWHERE])
    found = Loader(seen).resolve("$ORIGIN/libx.so.1", seen.elf_by_path[USER])
    assert found == Resolved("/opt/app/lib/libx.so.1", "its path")
    assert Loader(seen).resolve("/nowhere/libx.so.1", seen.elf_by_path[USER]) is None


@pytest.mark.parametrize(
    "links", [{"/usr/lib/libx.so.1": "libx.so.1"}, {"/usr/lib/libx.so.1": "../lib/libx.so.1"}]
)
def test_link_to_itself_resolves_to_nothing(links: dict[str, str]) -> None:
    seen = facts(elf_rows=[library(USER, needed=["libx.so.1"])], library_links=links)
    assert resolve(seen) is None


def test_dlopen_from_the_program() -> None:
    program = {**library("/usr/bin/python3"), "interpreter": "/lib64/ld-linux-x86-64.so.2"}
    plugin = library("/opt/amazon/lib/libnccl-net.so", defined=["ncclNetPlugin_v11"])
    seen = facts(elf_rows=[program, plugin])
    assert Loader(seen).dlopen("libnccl-net.so") is None
    found = Loader(seen, ["/opt/amazon/lib"]).dlopen("libnccl-net.so")
    assert found == Resolved("/opt/amazon/lib/libnccl-net.so", "LD_LIBRARY_PATH")
    assert Loader(facts(elf_rows=[plugin])).dlopen("libnccl-net.so") is None


def test_site_packages_are_no_default_folder() -> None:
    seen = facts(
        elf_rows=[library(USER, needed=["libx.so.1"]), library(f"{SITE}/x/libx.so.1", soname="libx.so.1")]
    )
    assert resolve(seen) is None
