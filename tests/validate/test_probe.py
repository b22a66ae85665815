"""The probe's own functions, on bytes and folders; it runs in images, but is only Python."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.validate.elf_file import elf
from validate import probe
from validate.experiments.probing import credential_patterns


def read(data: bytes) -> dict[str, Any]:
    return probe.read_elf(io.BytesIO(data), len(data))


def test_elf_headers() -> None:
    data = elf(
        soname="libx.so.1",
        needed=["liba.so", "libb.so.2"],
        runpath="$ORIGIN/../lib:/opt/lib",
        versions_needed={"libc.so.6": ["GLIBC_2.2.5", "GLIBC_2.34"], "libb.so.2": ["B_1"]},
        versions_given=["libx.so.1", "X_1"],
    )
    seen = read(data)
    assert seen["soname"] == "libx.so.1"
    assert seen["needed"] == ["liba.so", "libb.so.2"]
    assert seen["runpath"] == ["$ORIGIN/../lib", "/opt/lib"]
    assert seen["rpath"] is None
    assert seen["versions_needed"] == {"libc.so.6": ["GLIBC_2.2.5", "GLIBC_2.34"], "libb.so.2": ["B_1"]}
    assert seen["versions_given"] == ["libx.so.1", "X_1"]
    assert (seen["bits"], seen["machine"], seen["kind"]) == (64, 62, 3)


def test_symbols_by_pattern() -> None:
    data = elf(defined=["ncclGetVersion", "other"], undefined=["ncclCommResume", "malloc"])
    found = probe.dynamic_symbols(io.BytesIO(data), len(data), re.compile(rb"nccl"))
    assert found == (["ncclGetVersion"], ["ncclCommResume"])


def test_this_interpreters_own_libraries_are_read() -> None:
    """Real files, made by a real linker: the C library gives versions, and is what others need."""
    names = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
    seen = {name: read(Path(name).read_bytes()) for name in names}
    libc = next(row for name, row in seen.items() if "/libc.so.6" in name or "/libc-" in name)
    assert libc["soname"] == "libc.so.6"
    assert "GLIBC_2.2.5" in libc["versions_given"] or "GLIBC_2.17" in libc["versions_given"]
    assert any("libc.so.6" in row["needed"] for row in seen.values())


def test_truncated_library_is_told() -> None:
    data = elf(soname="libx.so.1", needed=["liba.so"])
    with pytest.raises(probe.ElfError, match=r"truncated: needs byte \d+, the file ends at 200"):
        read(data[:200])


def test_not_elf() -> None:
    with pytest.raises(probe.ElfError, match="no ELF magic"):
        read(b"#!/bin/sh\nexit 0\n")


@given(st.binary(max_size=600))
def test_random_bytes_never_break_the_reader(noise: bytes) -> None:
    for data in (noise, b"\x7fELF\x02\x01\x01" + noise):
        try:
            read(data)
        except probe.ElfError:
            continue


@given(st.data())
def test_flipped_bytes_never_break_the_reader(data: st.DataObject) -> None:
    good = bytearray(
        elf(soname="libx.so.1", needed=["liba.so"], versions_needed={"liba.so": ["A_1"]}, versions_given=["X"])
    )
    for _ in range(data.draw(st.integers(1, 8))):
        good[data.draw(st.integers(4, len(good) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(good)
    try:
        read(whole)
        probe.dynamic_symbols(io.BytesIO(whole), len(whole), re.compile(rb"."))
    except (probe.ElfError, struct.error):
        pass


def _cache(entries: list[tuple[str, str]]) -> bytes:
    strings, rows = b"", b""
    start = 48 + 24 * len(entries)
    for name, path in entries:
        key = start + len(strings)
        strings += name.encode() + b"\0"
        value = start + len(strings)
        strings += path.encode() + b"\0"
        rows += struct.pack("<iIIIQ", 0x303, key, value, 0, 0)
    header = b"glibc-ld.so.cache1.1" + struct.pack("<IIBxxxIIII", len(entries), len(strings), 2, 0, 0, 0, 0)
    return header + rows + strings


def test_loader_cache() -> None:
    entries = [("libz.so.1", "/usr/lib/libz.so.1"), ("libz.so.1", "/opt/lib/libz.so.1")]
    assert probe.read_loader_cache(_cache(entries)) == [list(row) for row in entries]
    old_format_before = b"ld.so-1.7.0" + b"\0" * 37
    assert probe.read_loader_cache(old_format_before + _cache(entries)) == [list(row) for row in entries]


@given(st.binary(max_size=300))
def test_loader_cache_of_any_bytes(noise: bytes) -> None:
    probe.read_loader_cache(noise)
    probe.read_loader_cache(b"glibc-ld.so.cache1.1" + noise)


def test_record_lines() -> None:
    digest = hashlib.sha256(b"x").digest()
    encoded = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    text = f'pkg/a.py,sha256={encoded},1\n../../../bin/tool,,\n"odd,name",,\n'
    rows = probe.read_record(text, "/opt/venv/lib/python3.13/site-packages")
    assert rows == [
        probe.Row("/opt/venv/lib/python3.13/site-packages/pkg/a.py", digest.hex()),
        probe.Row("/opt/venv/bin/tool", ""),
        probe.Row("/opt/venv/lib/python3.13/site-packages/odd,name", ""),
    ]


def test_dpkg_status_keeps_only_what_is_installed() -> None:
    text = (
        "Package: wget\nStatus: install ok installed\nVersion: 1.25\nArchitecture: amd64\n"
        "Description: one\n more: of it\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n"
    )
    assert probe.read_dpkg_status(text) == [
        {"name": "wget", "version": "1.25", "architecture": "amd64", "depends": "", "provides": ""}
    ]


KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + ("b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\n" * 4) + "-----END"
TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (KEY, "private key (PEM)"),
        ('{"private_key": "' + KEY.replace("\n", "\\n") + '"}', "private key (PEM)"),
        (f"token = '{TOKEN}'", "Hugging Face token"),
        ("AKIA" + "ABCDEFGHIJKLMN23", "AWS access key"),
        ("aws_secret_access_key = " + "a1B2" * 10, "AWS secret access key"),
        ("ghp_" + "a1B2c3" * 6, "GitHub token"),
        ('{"auths": {"r.example": {"auth": "dXNlcjpwYXNzd29yZA=="}}}', "registry login (Docker config)"),
        ("[global]\nindex-url = https://bob:s3cret@pypi.example/simple\n", "password in a package index address"),
        ("    client-key-data: " + "LS0tLS1C" * 20, "client key of a Kubernetes configuration"),
    ],
)
def test_credential_is_found_without_its_value(text: str, kind: str) -> None:
    patterns = probe.compile_patterns(credential_patterns())
    found = list(probe.find_credentials(b"first line\n" + text.encode(), patterns))
    assert [row[0] for row in found] == [kind]
    assert all(isinstance(row[1], int) for row in found)


@pytest.mark.parametrize(
    ("path", "data", "kind"),
    [
        ("/root/.netrc", b"machine r.example login bob password s3cret-word\n", "password in .netrc"),
        ("/root/.pypirc", b"[pypi]\nusername = __token__\npassword = hunter2hunter2\n", "password in .pypirc"),
        ("/root/.git-credentials", b"https://bob:0123456789@git.example\n", "login kept by git"),
        ("/x/server.key", b"0\x82\x04\xbd\x02\x01\x000\r\x06\t", "private key (DER)"),
        ("/x/client.p12", b"0\x82\x09\x00\x02\x01\x03", "private key (key store)"),
    ],
)
def test_credential_of_a_file_by_its_name(path: str, data: bytes, kind: str) -> None:
    patterns = probe.compile_patterns(credential_patterns())
    assert [row[0] for row in probe.find_credentials(data, patterns, path)] == [kind]
    assert list(probe.find_credentials(data, patterns, "/elsewhere/file.txt")) == []


@pytest.mark.parametrize(
    "text",
    [
        "_SK_START = b'-----BEGIN OPENSSH PRIVATE KEY-----'\n_SK_END = b'-----END OPENSSH PRIVATE KEY-----'",
        "-----BEGIN PUBLIC KEY-----\n" + "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n" * 4,
        "aws_access_key_id = AKIAIOSFODNN7EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "hf_hub_download and hf_transfer are functions, as hf_model_configuration_name_of_something is",
        "index-url = https://pypi.example/simple",
        "machine r.example login bob password in-a-manual",
    ],
)
def test_what_only_looks_like_one(text: str) -> None:
    patterns = probe.compile_patterns(credential_patterns())
    assert list(probe.find_credentials(text.encode(), patterns)) == []


@given(st.binary(max_size=400))
def test_credentials_in_any_bytes(noise: bytes) -> None:
    list(probe.find_credentials(noise, probe.compile_patterns(credential_patterns())))


def _collect(root: Path, **config: Any) -> dict[str, Any]:
    return probe.collect({"root": str(root), "patterns": credential_patterns(), "live": False, **config})


def test_links_are_followed_inside_the_root(tmp_path: Path) -> None:
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "usr/lib/libx.so.1.0").write_bytes(elf(soname="libx.so.1"))
    (tmp_path / "usr/lib/libx.so.1").symlink_to("/lib/libx.so.1.0")
    tree = probe.Tree(str(tmp_path), [], None)
    assert tree.resolve("/lib/libx.so.1") == "/usr/lib/libx.so.1.0"
    facts = _collect(tmp_path)
    assert facts["library_links"] == {"/usr/lib/libx.so.1": "/lib/libx.so.1.0"}
    assert facts["directory_links"] == {"/lib": "usr/lib"}


def test_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert probe.Tree(str(tmp_path), [], None).resolve("/a") == "/a"


def test_privileges_come_from_the_archive_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"#!/bin/sh\n")
    facts = _collect(tmp_path, metadata={"/tool": [0o4755, 0, 0]})
    assert facts["privileged"] == [{"path": "/tool", "mode": 0o4755, "uid": 0, "gid": 0, "owned": False}]


def test_credential_in_compiled_copy_counts_once(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "x.py").write_text(f"T = '{TOKEN}'")
    (tmp_path / "__pycache__/x.cpython-313.pyc").write_text(TOKEN)
    assert [row["path"] for row in _collect(tmp_path)["findings"]] == ["/x.py"]
    (tmp_path / "x.py").unlink()
    assert [row["path"] for row in _collect(tmp_path)["findings"]] == ["/__pycache__/x.cpython-313.pyc"]


def test_unreadable_names_and_odd_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (Path(os.fsdecode(bytes(tmp_path) + b"/\xff\xfe"))).write_text(TOKEN)
    facts = _collect(tmp_path)
    assert facts["file_count"] == 1
    assert [row["kind"] for row in facts["findings"]] == ["Hugging Face token"]
