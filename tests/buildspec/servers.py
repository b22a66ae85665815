"""Servers for integration tests: a private package index behind TLS and a login, a proxy, a registry."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import io
import os
import secrets
import select
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def wheel(name: str, version: str, module: str = "") -> tuple[str, bytes]:
    """A small pure-Python wheel, as pip and uv accept it: its file name and its content."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": module or f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(text.encode())}\n")
    files[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"])
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), text)
    return f"{name}-{version}-py3-none-any.whl", content.getvalue()


@contextlib.contextmanager
def served(server: http.server.HTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def authority(folder: Path, address: str) -> tuple[Path, Path]:
    """A CA certificate and a server's certificate with key, made for this run."""
    ca, ca_key, server, request = (folder / name for name in ("ca.pem", "ca.key", "server.pem", "server.csr"))
    extensions = folder / "extensions"
    extensions.write_text(f"subjectAltName=IP:{address}\n")
    new = ["req", "-newkey", "rsa:2048", "-nodes"]
    by_ca = ["-CA", str(ca), "-CAkey", str(ca_key), "-CAcreateserial", "-extfile", str(extensions), "-days", "2"]
    for command in (
        [*new, "-x509", "-subj", "/CN=Test CA", "-days", "2", "-keyout", str(ca_key), "-out", str(ca)],
        [*new, "-subj", "/CN=index", "-keyout", f"{server}.key", "-out", str(request)],
        ["x509", "-req", "-in", str(request), *by_ca, "-out", f"{server}.crt"],
    ):
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    server.write_text(Path(f"{server}.key").read_text() + Path(f"{server}.crt").read_text())
    return ca, server


@dataclass
class Index:
    """A private package index: projects by name, each with its files; only who logs in sees it."""

    address: str
    password: str = field(default_factory=lambda: f"hush-index-{secrets.token_hex(8)}")
    files: dict[str, bytes] = field(default_factory=dict)
    url: str = ""
    ca: Path = Path()

    def add(self, *wheels: tuple[str, bytes]) -> None:
        self.files.update(wheels)

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator[Index]:
        self.ca, certificate = authority(folder, self.address)
        index = self
        login = "Basic " + base64.b64encode(f"crew:{self.password}".encode()).decode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.headers.get("Authorization") != login:
                    self.answer(401, b"", {"WWW-Authenticate": "Basic"})
                    return
                parts = self.path.strip("/").split("/")
                if parts[0] == "simple" and len(parts) == 2:
                    self.answer(200, index.page(parts[1]), {"Content-Type": "text/html"})
                elif parts[0] == "files" and parts[-1] in index.files:
                    self.answer(200, index.files[parts[-1]], {})
                else:
                    self.answer(404, b"", {})

            do_HEAD = do_GET  # noqa: N815 - http.server calls it so

            def answer(self, code: int, body: bytes, headers: dict[str, str]) -> None:
                self.send_response(code)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://crew:{self.password}@{self.address}:{server.server_port}/simple"
        with served(server):
            yield self

    def page(self, project: str) -> bytes:
        rows = [
            f'<a href="/files/{name}#sha256={hashlib.sha256(content).hexdigest()}">{name}</a>'
            for name, content in self.files.items()
            if name.split("-")[0] == project
        ]
        return "\n".join(["<!DOCTYPE html><html><body>", *rows, "</body></html>"]).encode()


@dataclass
class Proxy:
    """A forward proxy with a login that tunnels to anywhere; counts what went through it."""

    address: str
    password: str = field(default_factory=lambda: f"hush-proxy-{secrets.token_hex(8)}")
    url: str = ""
    tunnels: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def running(self) -> Iterator[Proxy]:
        proxy = self
        login = "Basic " + base64.b64encode(f"mate:{self.password}".encode()).decode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                if self.headers.get("Proxy-Authorization") != login:
                    self.send_response(407)
                    self.send_header("Proxy-Authenticate", "Basic")
                    self.end_headers()
                    return
                proxy.tunnels.append(self.path)
                host, _, port = self.path.rpartition(":")
                try:
                    there = socket.create_connection((host, int(port)))
                except OSError:
                    self.send_response(502)
                    self.end_headers()
                    return
                with there:
                    self.send_response(200)
                    self.end_headers()
                    _tunnel(self.connection, there)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Handler)
        self.url = f"http://mate:{self.password}@{self.address}:{server.server_port}"
        with served(server):
            yield self


def _tunnel(here: socket.socket, there: socket.socket) -> None:
    ends = {here: there, there: here}
    with contextlib.suppress(OSError):
        while True:
            for ready in select.select(list(ends), [], [], 60)[0]:
                data = ready.recv(65536)
                if not data:
                    return
                ends[ready].sendall(data)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def registry(folder: Path, *, login: str = "") -> Iterator[str]:
    """Debian's docker-registry on a free port of loopback; with `login` (an htpasswd line) it asks for one."""
    if shutil.which("docker-registry") is None:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "--yes", "--no-install-recommends", "docker-registry"]
        subprocess.run(["apt-get", "update"], check=True, capture_output=True)
        subprocess.run(command, check=True, capture_output=True, env=environment)
    port = free_port()
    rows = [
        "version: 0.1",
        "log: {level: error}",
        f"storage: {{filesystem: {{rootdirectory: {folder}/storage}}, delete: {{enabled: true}}}}",
        f"http: {{addr: '127.0.0.1:{port}'}}",
    ]
    if login:
        (folder / "htpasswd").write_text(login + "\n")
        rows.append(f"auth: {{htpasswd: {{realm: test, path: {folder}/htpasswd}}}}")
    config = folder / "config.yml"
    config.write_text("\n".join(rows) + "\n")
    with (
        (folder / "registry.log").open("wb") as log,
        subprocess.Popen(["docker-registry", "serve", str(config)], stdout=log, stderr=log) as process,
    ):
        try:
            _wait_for(port, process, folder / "registry.log")
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


def _wait_for(port: int, process: subprocess.Popen[Any], log: Path) -> None:
    deadline = time.monotonic() + 20
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"docker-registry did not start:\n{log.read_text()}")
        time.sleep(0.05)


def digest_at(registry_address: str, repository: str, tag: str) -> str:
    """What the registry itself says is the digest of a tag."""
    request = urllib.request.Request(
        f"http://{registry_address}/v2/{repository}/manifests/{tag}",
        headers={"Accept": "application/vnd.docker.distribution.manifest.v2+json"},
        method="HEAD",
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return str(answer.headers["Docker-Content-Digest"])
