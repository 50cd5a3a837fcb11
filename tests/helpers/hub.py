"""A model hub on this machine: folders served the way the hub's own client asks for them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import sys
import threading
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse

from huggingface_hub import constants

from engine.models import hub as hubs
from engine.models import loading
from engine.sources.catalogue import MODEL_DIR
from tests.helpers import hub_uploads
from tests.helpers.hub_uploads import SHA
from tests.helpers.models import tiny_llama
from tests.helpers.patience import PATIENCE_S

BRANCHES = ("main",)


GOOD = "someone/tiny"
_PIECE = 1 << 18
_LOOK_S = 0.02
_LARGE = ".safetensors"


def _announced(path: Path, space: bool = False) -> dict[str, Any]:
    """Return the hashes that a hub tells of a file: git's, or for a large one its SHA-256."""
    about = path.stat()
    return _hashes(path, space, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=4096)
def _hashes(path: Path, space: bool, size: int, changed_ns: int) -> dict[str, Any]:
    del changed_ns
    data = path.read_bytes() if space or path.suffix != _LARGE else b""
    if not hub_uploads.is_binary(data, size) if space else path.suffix != _LARGE:
        return {"blobId": hashlib.sha1(b"blob %d\0" % size + data).hexdigest()}
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"blobId": digest[:40], "lfs": {"sha256": digest, "size": size, "pointerSize": 130}}


class Hub(ThreadingHTTPServer):
    """Serves ``folder/owner/name`` as repositories.

    Attributes:
        asked: paths of all requests so far.
        tokens: what they brought as authorization.
        faults: repository -> (status, headers, body) answered to every request for it.
        cut: bytes that are held back of every file, though announced.
        stall: leave every request without an answer until the hub closes.
        commits: what was committed: query, header and files of each, with its path and authorization.
        refusals: repository -> status answered to whoever writes to it.
        about: repository -> what the hub says of it besides its files.
        tags: branches, tags and commits beside main -> the commit, of all repositories.
        states: commit -> the folder that has the repository's files then, where it is not ``folder``'s own.
        drips: names of files that come byte by byte until the hub closes, and never whole.
        breaks: name of a file -> how many of its bytes come before every line breaks.
        waits: name of a file -> how many of its bytes come before the hub waits until it closes, or for ``go_on``.
        changed: names of files that come with another last byte than the one announced.
        per_s: bytes a second of every large file, 0 for as many as there are.
        created: what was said of each repository that was created.
        large: SHA-256 -> content of the large files that were uploaded.
        heads: repository -> its newest commit, where that is not ``SHA``.
        variables: Space -> name -> value.
        wrong_tokens: what is answered as an authorization that nobody has.
        begun: of every large file that was sent, its name and the byte it began with.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.asked: list[str] = []
        self.tokens: set[str] = set()
        self.faults: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.cut = 0
        self.stall = False
        self.drips: set[str] = set()
        self.about: dict[str, dict[str, Any]] = {}
        self.commits: list[dict[str, Any]] = []
        self.refusals: dict[str, int] = {}
        self.tags: dict[str, str] = {}
        self.states: dict[str, Path] = {}
        self.breaks: dict[str, int] = {}
        self.waits: dict[str, int] = {}
        self.changed: set[str] = set()
        self.per_s = 0.0
        self.begun: list[tuple[str, int]] = []
        self.created: list[dict[str, Any]] = []
        self.large: dict[str, bytes] = {}
        self.heads: dict[str, str] = {}
        self.variables: dict[str, dict[str, str]] = {}
        self.wrong_tokens: set[str] = set()
        self.closing, self.go_on = threading.Event(), threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong here; that somebody has hung up is none of it."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def files(self) -> list[str]:
        """Return the names of the files that were asked for."""
        return [path.partition(f"/resolve/{SHA}/")[2] for path in self.asked if "/resolve/" in path]


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Stay silent."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urlparse(self.path).path
        self.server.asked.append(path)
        if "Authorization" in self.headers:
            self.server.tokens.add(self.headers["Authorization"])
        if self.server.stall:
            self.server.closing.wait()
            return None
        if not self._is_known():
            return None
        if path == "/api/models":
            return self._search(parse_qs(urlparse(self.path).query))
        repo = hub_uploads.repository(path)
        if repo in self.server.faults:
            status, headers, body = self.server.faults[repo]
            return self._send(status, body, headers)
        folder = self.server.folder / repo
        if not folder.is_dir():
            return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        if path.endswith("/variables"):
            return self._json(hub_uploads.variables(self.server, repo))
        head = hub_uploads.head(self.server, repo)
        known = {**dict.fromkeys((*BRANCHES, head), head), **self.server.tags}
        sha, _, name = path.partition("/resolve/")[2].partition("/")
        if sha and "gated" in self.server.about.get(repo, {}):
            return self._send(403, b"", {"X-Error-Code": "GatedRepo"})
        sha = known.get(sha, sha)
        if sha in known.values():
            return self._file(self.server.states.get(sha, folder) / name, sha)
        return self._listing(repo, path, folder, known)

    def _search(self, query: dict[str, list[str]]) -> None:
        """List the repositories that have a tag and a word in their name, the most downloaded first."""
        about, wanted = self.server.about, query.get("search", [""])[0]
        names = [
            f.relative_to(self.server.folder).as_posix() for f in self.server.folder.glob("*/*")
        ]
        found = [
            {"id": name, "modelId": name, "likes": 1, **about[name]}
            for name in names
            if wanted in name and query["filter"][0] in about.get(name, {}).get("tags", ())
        ]
        found.sort(key=lambda model: -model.get(query["sort"][0], 0))
        return self._json(found[: int(query["limit"][0])])

    def _listing(self, repo: str, path: str, folder: Path, known: dict[str, str]) -> None:
        """Answer what files a revision of a repository has, and what is said of it."""
        asked = unquote(path.partition("/revision/")[2] or BRANCHES[0])
        if "/tree/" in path:
            asked = path.partition("/tree/")[2]
        if asked not in known:
            return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        sha = known[asked]
        state = self.server.states.get(sha, folder)
        found = {
            f.relative_to(state).as_posix(): f for f in sorted(state.rglob("*")) if f.is_file()
        }
        if "/tree/" in path:
            return self._json(
                [
                    {"type": "file", "path": name, "size": f.stat().st_size, "oid": f"{n:040x}"}
                    for n, (name, f) in enumerate(found.items())
                ]
            )
        space = repo.startswith("spaces/")
        siblings = [
            {"rfilename": name, "size": f.stat().st_size, **_announced(f, space)}
            for name, f in found.items()
        ]
        told = {"id": repo, "modelId": repo, "sha": sha, "siblings": siblings}
        return self._json(told | self.server.about.get(repo, {}))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(urlparse(self.path).path)
        if self._is_known():
            hub_uploads.answer_post(self, body)

    def do_PUT(self) -> None:
        self.server.asked.append(urlparse(self.path).path)
        hub_uploads.answer_put(self)

    def _is_known(self) -> bool:
        """Return whether a request may go on; one with a wrong token is answered here."""
        wrong = self.headers.get("Authorization") in self.server.wrong_tokens
        if wrong:
            said = "Invalid credentials in Authorization header"
            self._send(401, b"{}", {"X-Error-Message": said})
        return not wrong

    def _file(self, path: Path, sha: str) -> None:
        if not path.is_file():
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        told = _announced(path)
        etag = told["lfs"]["sha256"] if "lfs" in told else told["blobId"]
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": sha}
        if self.command == "GET" and path.name in self.server.drips:
            return self._drip(path.read_bytes(), headers)
        if self.command == "GET" and "lfs" in told:
            return self._large(path, headers)
        data = path.read_bytes()
        if path.name in self.server.changed:
            data = data[:-1] + bytes([data[-1] ^ 1])
        return self._send(200, data, headers, self.server.cut)

    def _large(self, path: Path, headers: dict[str, str]) -> None:
        """Send a large file from the byte that was asked for, as a hub does."""
        size = path.stat().st_size
        asked = self.headers.get("Range", "")
        first = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        end = min(self.server.breaks.get(path.name, size), size - self.server.cut)
        if first >= end < size:
            return
        self.server.begun.append((path.name, first))
        self.send_response(206 if asked else 200)
        if asked:
            headers["Content-Range"] = f"bytes {first}-{size - 1}/{size}"
        for name, value in {**headers, "Content-Length": str(size - first)}.items():
            self.send_header(name, value)
        self.end_headers()
        with path.open("rb") as file:
            file.seek(first)
            self._pieces(file, path.name, first, end, size)

    def _pieces(self, file: Any, name: str, at: int, end: int, size: int) -> None:
        server, wait = self.server, self.server.waits.get(name)
        while at < end:
            stop = end if wait is None or at >= wait else min(end, wait)
            piece = file.read(min(_PIECE, stop - at))
            at += len(piece)
            if at == size and name in server.changed:
                piece = piece[:-1] + bytes([piece[-1] ^ 1])
            self.wfile.write(piece)
            if server.per_s and server.closing.wait(len(piece) / server.per_s):
                return
            if at == wait:
                while not (server.go_on.wait(_LOOK_S) or server.closing.is_set()):
                    continue

    def _drip(self, body: bytes, headers: dict[str, str]) -> None:
        self._send(200, body, headers, len(body))
        for byte in body[:-1]:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            if self.server.closing.wait(0.02):
                return

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str], cut: int = 0) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) - cut])


@contextmanager
def serving(folder: Path):
    """Serve a folder of repositories until the block ends."""
    hub = Hub(folder)
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.closing.set()
        hub.shutdown()
        hub.server_close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def repository_at(folder: Path, **settings: Any) -> Path:
    """Write a repository: a tiny model with a real tokenizer.

    Args:
        folder: where.
        settings: of its config besides, see ``tiny_llama``.
    """
    values = {"vocab_size": 4096, "eos_token_id": 0, "seed": 0, **settings}
    tiny_llama(1, **values).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(MODEL_DIR / "storyteller" / name, folder)
    return folder


@contextmanager
def asked(folder: Path, monkeypatch: Any):
    """Serve a folder of repositories as the hub that the engine asks; nothing else can be reached.

    Nothing is in memory, and the hub's cache is an empty folder beside the repositories.
    """
    connect = socket.socket.connect

    def local_only(self: Any, address: Any) -> Any:
        assert address[0] in ("127.0.0.1", "localhost"), f"a request to {address}"
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)
    monkeypatch.setattr(loading, "_CACHE", type(loading._CACHE)())
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    # This hub answers, however late.
    monkeypatch.setattr(hubs, "PROBE_S", int(PATIENCE_S))
    monkeypatch.setattr(hubs, "SILENCE_S", int(PATIENCE_S))
    with serving(folder) as served:
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        yield served


def kept_files(folder: str | Path) -> list[str]:
    """Return the paths of all files below a folder, of which some may go away meanwhile."""
    return [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
