"""The package index as Drydock reads it: pages, metadata, RECORDs, the cache, and what can be missing."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.version import Version

from buildspec.errors import ExitCode
from buildspec.index import (
    Cache,
    FileVanishedError,
    Index,
    IndexUnreachableError,
    NotOnIndexError,
    NotReadableError,
    client,
    lend_to_uv,
    open_index,
    page,
    record,
    web,
)
from tests.local_index import LocalIndex, Wheel, serving

SAIL = Wheel("sail", "1.2.0", ("mast>=2", 'rope==1.0 ; extra == "long"'), requires_python=">=3.11")
OLD = Wheel("sail", "1.1.0", yanked="tears in wind")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture(params=["json with metadata", "json, ranges", "html, ranges", "html, whole files"])
def served(request: pytest.FixtureRequest) -> Iterator[LocalIndex]:
    options = {
        "html": request.param.startswith("html"),
        "metadata": "metadata" in request.param,
        "ranges": "whole" not in request.param,
    }
    with serving([OLD, SAIL], **options) as index:
        yield index


def test_every_kind_of_index_says_the_same(served: LocalIndex, cache: Cache) -> None:
    index = Index([served.url], cache)

    found = index.page("Sail")
    newest, old = found.files[1], found.files[0]

    assert [str(version) for version in found.releases] == ["1.1.0", "1.2.0"]
    assert (old.yanked, newest.yanked) == ("tears in wind", None)
    assert newest.requires_python == ">=3.11"
    assert len(newest.sha256) == 64
    assert [str(requirement) for requirement in index.metadata(newest).requires] == [
        "mast>=2",
        'rope==1.0; extra == "long"',
    ]
    assert index.metadata(newest).requires_python == ">=3.11"
    assert [row.path for row in index.record(newest)] == ["sail.py"]


def test_a_large_wheel_is_read_in_parts(cache: Cache) -> None:
    with serving([Wheel("hull", "1.0", ("sail",), padding=3 << 20)], metadata=False) as served:
        index = Index([served.url], cache)
        found = index.metadata(index.page("hull").files[0])

    assert [r.name for r in found.requires] == ["sail"]
    assert served.requests("/files/") <= 2


def test_a_large_wheel_without_ranges_is_refused(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MAX_WHOLE", 1 << 10)
    with serving([Wheel("hull", "1.0", padding=1 << 16)], metadata=False, ranges=False) as served:
        index = Index([served.url], cache)
        with pytest.raises(NotReadableError, match="knows no range requests"):
            index.metadata(index.page("hull").files[0])


def test_what_was_read_once_is_not_asked_again(served: LocalIndex, cache: Cache) -> None:
    first = Index([served.url], cache)
    file = first.page("sail").files[1]
    first.metadata(file)
    first.record(file)
    asked = len(served.asked)

    again = Index([served.url], cache, offline=True)
    again.metadata(again.page("sail").files[1])
    again.record(again.page("sail").files[1])

    assert len(served.asked) == asked


def test_an_old_page_is_asked_for_again_and_not_sent_again(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving([SAIL]) as served:
        Index([served.url], cache).page("sail")
        monkeypatch.setattr(client, "FRESH", -1.0)
        Index([served.url], cache).page("sail")
        assert served.requests("/simple/sail/") == 2

        served.add(Wheel("sail", "1.3.0"))
        found = Index([served.url], cache).page("sail")

    assert [str(version) for version in found.releases] == ["1.2.0", "1.3.0"]


def test_files_of_a_release_that_was_seen_are_not_asked_for_again(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving([SAIL]) as served:
        Index([served.url], cache).page("sail")
        served.add(Wheel("sail", "1.3.0"))
        old = Index([served.url], cache, fresh=0)
        assert [file.name for file in old.release("sail", Version("1.2.0"))] == [SAIL.filename]
        assert served.requests("/simple/") == 1
        assert [file.version for file in old.release("sail", Version("1.3.0"))] == [Version("1.3.0")]
        assert served.requests("/simple/") == 2
        assert old.release("sail", Version("9")) == ()


def test_a_damaged_cache_entry_is_fetched_again(cache: Cache) -> None:
    with serving([SAIL]) as served:
        Index([served.url], cache).page("sail")
        for file in (cache.folder / "content").iterdir():
            file.write_bytes(b"{}")
        assert [str(v) for v in Index([served.url], cache).page("sail").releases] == ["1.2.0"]


def test_a_cache_that_can_not_be_written_costs_speed_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with serving([SAIL]) as served:
        assert Index([served.url], Cache(tmp_path / "file" / "cache")).page("sail").files


def test_out_of_reach_the_cache_answers_whatever_its_age(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving([SAIL]) as served:
        Index([served.url], cache).page("sail")
    monkeypatch.setattr(client, "FRESH", -1.0)
    monkeypatch.setattr(web, "_PAUSES", ())

    index = Index([served.url], cache)

    assert [str(version) for version in index.page("sail").releases] == ["1.2.0"]
    assert index.unreachable is not None
    assert "is out of reach" in index.unreachable.what
    with pytest.raises(IndexUnreachableError, match="is out of reach"):
        Index([served.url], cache, fall_back=False).page("sail")


def test_an_index_that_is_down_is_asked_once(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_PAUSES", (0.0,))
    with serving([SAIL]) as served:
        served.status["/simple/"] = 503
        index = Index([served.url], cache)
        for name in ("sail", "mast", "rope"):
            with pytest.raises(IndexUnreachableError, match="HTTP 503"):
                index.page(name)
        assert len(served.asked) == 2


def test_offline_without_a_cache_says_so(cache: Cache) -> None:
    with pytest.raises(IndexUnreachableError, match="not in the cache, and this run is offline"):
        Index(["http://127.0.0.1:1/simple"], cache, offline=True).page("sail")


def test_what_is_missing_is_named(cache: Cache) -> None:
    with serving([Wheel("sail", "1.2.0", missing=True)], metadata=False) as served:
        index = Index([served.url], cache)
        with pytest.raises(NotOnIndexError, match="no distribution named 'mast'"):
            index.page("mast")
        with pytest.raises(FileVanishedError, match=r"sail-1\.2\.0-py3-none-any\.whl does not exist") as caught:
            index.metadata(index.page("sail").files[0])
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_metadata_with_another_checksum_is_refused(cache: Cache) -> None:
    with serving([SAIL]) as served:
        index = Index([served.url], cache)
        file = index.page("sail").files[0]
        SAIL.requires, kept = ("mast>=3",), SAIL.requires
        try:
            with pytest.raises(NotReadableError, match="does not have the checksum"):
                index.metadata(file)
        finally:
            SAIL.requires = kept


def test_credentials_are_sent_and_not_shown(cache: Cache) -> None:
    with serving([SAIL], login="captain:se cret") as served:
        url = served.url.replace("se cret", "se%20cret")
        assert Index([url], cache).page("sail").files
        with pytest.raises(NotReadableError, match="HTTP 401") as refused:
            Index([url.replace("se%20cret", "wrong")], cache).page("rope")
        with pytest.raises(NotOnIndexError) as missing:
            Index([url], cache).page("rope")
    assert "wrong" not in str(refused.value)
    assert "cret" not in str(missing.value)


def test_the_first_index_that_has_a_distribution_serves_it(cache: Cache) -> None:
    with serving([Wheel("sail", "1.0.0")]) as first, serving([SAIL, Wheel("mast", "2.0")]) as second:
        index = Index([first.url, second.url], cache)
        assert [str(version) for version in index.page("sail").releases] == ["1.0.0"]
        assert [str(version) for version in index.page("mast").releases] == ["2.0"]


@pytest.mark.parametrize("body", ["<not json", "[]", '{"files": [{"filename": 3}]}', '{"files": {}, "x": '])
def test_an_answer_that_is_no_page_is_refused(body: str) -> None:
    with pytest.raises(NotReadableError, match="no page of a package index"):
        page.parse("sail", "http://index/simple/sail/", "application/json", body.encode())


def test_a_file_that_is_no_wheel_is_refused(cache: Cache) -> None:
    with serving([SAIL], metadata=False) as served:
        served.files[SAIL.filename] = b"not a zip file" * 100
        index = Index([served.url], cache)
        with pytest.raises(NotReadableError, match="is no wheel"):
            index.metadata(index.page("sail").files[0])


def test_names_that_follow_no_rule_have_no_version() -> None:
    files = [
        {"filename": name, "url": name} for name in ("sail-1.0.win32.exe", "sail-1.0-py2.7.egg", "sail-1.0.tar.gz")
    ]
    found = page.parse("sail", "http://index/simple/sail/", "json", json.dumps({"files": files}).encode())
    assert [str(file.version) for file in found.files] == ["None", "None", "1.0"]
    assert list(map(str, found.releases)) == ["1.0"]


def test_a_record_tells_where_files_are_installed() -> None:
    text = (
        "sail/__init__.py,sha256=a,1\nsail-1.0.dist-info/METADATA,sha256=b,1\nsail-1.0.data/scripts/hoist,sha256=c,1\n"
        "sail-1.0.data/purelib/sail/more.py,sha256=d,1\nsail-1.0.data/data/share/doc,sha256=e,1\n"
        "sail-1.0.data/data/lib/python3.13/site-packages/x.py,sha256=f,1\n../../bin/odd,sha256=g,1\n\n"
    )
    assert [row.path for row in record.parse(text)] == [
        "sail/__init__.py", "/bin/hoist", "sail/more.py", "/share/doc", "x.py", "../../bin/odd",
    ]  # fmt: skip


def test_the_index_of_uv_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    cache = Cache(tmp_path)
    monkeypatch.setenv("PIP_INDEX_URL", "https://pip.example.org/simple/")
    assert open_index(cache=cache).urls == ("https://pip.example.org/simple",)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "main=https://uv.example.org/simple")
    assert open_index(cache=cache).urls == ("https://uv.example.org/simple",)
    monkeypatch.setenv("UV_INDEX", "torch=https://torch.example.org/whl https://other.example.org")
    monkeypatch.setenv("UV_INDEX_TORCH_USERNAME", "captain")
    monkeypatch.setenv("UV_INDEX_TORCH_PASSWORD", "se/cret")
    assert open_index(cache=cache).urls == (
        "https://captain:se%2Fcret@torch.example.org/whl",
        "https://other.example.org",
        "https://uv.example.org/simple",
    )


def test_a_folder_is_an_index_too(tmp_path: Path, cache: Cache) -> None:
    folder = tmp_path / "index" / "sail"
    folder.mkdir(parents=True)
    (folder / SAIL.filename).write_bytes(SAIL.content())
    (folder / "index.html").write_text(f'<a href="{SAIL.filename}">{SAIL.filename}</a>')
    index = Index([(tmp_path / "index").as_uri()], cache)
    assert [r.name for r in index.metadata(index.page("sail").files[0]).requires] == ["mast", "rope"]
    with pytest.raises(NotOnIndexError):
        index.page("mast")


def test_a_page_knows_its_age(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving([SAIL]) as served:
        Index([served.url], cache).page("sail")
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 100)
        assert 99 < Index([served.url], cache).page("sail").age < 101


def test_uv_gets_the_index_that_only_pip_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", "https://pip.example.org/simple")
    lend_to_uv()
    assert os.environ["UV_DEFAULT_INDEX"] == "https://pip.example.org/simple"


@pytest.mark.integration
def test_uv_says_which_index_it_has_built_in(cache: Cache) -> None:
    url = client.built_in(cache)
    assert url.startswith("https://")
    assert client.built_in(cache) == url
