"""Small packages of registries, a publisher on this machine, and a model made of them."""

import hashlib
import http.server
import io
import json
import tarfile
import threading
import zipfile
from contextlib import contextmanager

from larc.substrate.presets import FetchedModel, OfficialFile, Package, Piece


def write_wheel(directory, name, version, members):
    """A wheel that pip accepts, with some files in it."""
    module = name.replace("-", "_")
    path = directory / f"{module}-{version}-py3-none-any.whl"
    info = f"{module}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def tarball(members):
    """The bytes of an npm package with some files in it."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        for member, content in members.items():
            about = tarfile.TarInfo(member)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return held.getvalue()


@contextmanager
def serving(answers):
    """A server on this machine; gives its address and the paths it was asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = answers.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def npm_answers(address, name, version, content):
    """What npm's registry answers about one package."""
    dist = {
        "tarball": f"{address}/{name}/-/{name}-{version}.tgz",
        "shasum": hashlib.sha1(content).hexdigest(),
    }
    about = {"name": name, "version": version, "dist": dist}
    packument = {"name": name, "versions": {version: about}, "dist-tags": {"latest": version}}
    return {f"/{name}": json.dumps(packument).encode(), f"/{name}/-/{name}-{version}.tgz": content}


def model_of(content, requirements, *, name="small.gguf", members=None, finish=None):
    """A model of one file that is on a hub and, in equal pieces, in packages."""
    members = members or [f"pack/part{n}.bin" for n in range(1, len(requirements) + 1)]
    pieces = tuple(Piece(Package(r), m) for r, m in zip(requirements, members, strict=True))
    file = OfficialFile(
        name=name,
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        pieces=pieces,
        repository="someone/small",
        revision="f" * 40,
        finish=finish,
    )
    return FetchedModel("Small", "Someone", "someone/small", "gguf", (file,))


HUB_PATH = f"/someone/small/resolve/{'f' * 40}/small.gguf"
