"""A model hub on this machine: folders served the way the hub's own client asks for them."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from tests.helpers.patience import PATIENCE_S

BRANCHES = ("main",)
SHA = "0123456789abcdef0123456789abcdef01234567"


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
        self.closing = threading.Event()

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
        repo = "/".join(path.removeprefix("/api/models").split("/")[1:3])
        if repo in self.server.faults:
            status, headers, body = self.server.faults[repo]
            return self._send(status, body, headers)
        folder = self.server.folder / repo
        if not folder.is_dir():
            return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        known = {**dict.fromkeys((*BRANCHES, SHA), SHA), **self.server.tags}
        sha, _, name = path.partition("/resolve/")[2].partition("/")
        if sha and "gated" in self.server.about.get(repo, {}):
            return self._send(403, b"", {"X-Error-Code": "GatedRepo"})
        if sha in known.values():
            return self._file(self.server.states.get(sha, folder) / name, sha)
        return self._listing(repo, path, folder, known)

    def _listing(self, repo: str, path: str, folder: Path, known: dict[str, str]) -> None:
        """Answer what files a revision of a repository has, and what is said of it."""
        asked = unquote(path.partition("/revision/")[2] or SHA)
        if "/tree/" in path:
            asked = path.partition("/tree/")[2]
        if asked not in known:
            return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        sha = known[asked]
        found = sorted(self.server.states.get(sha, folder).iterdir())
        if "/tree/" in path:
            return self._json(
                [
                    {"type": "file", "path": f.name, "size": f.stat().st_size, "oid": f"{n:040x}"}
                    for n, f in enumerate(found)
                ]
            )
        siblings = [{"rfilename": f.name, "size": f.stat().st_size} for f in found]
        told = {"id": repo, "modelId": repo, "sha": sha, "siblings": siblings}
        return self._json(told | self.server.about.get(repo, {}))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        url = urlparse(self.path)
        self.server.asked.append(url.path)
        if url.path == "/api/validate-yaml":  # the front matter of a README
            return self._json({"errors": [], "warnings": []})
        repo, _, act = url.path.removeprefix("/api/models/").partition("/preupload/")
        if act:
            named = json.loads(body)["files"]
            answer = [{"path": f["path"], "uploadMode": "regular"} for f in named]
            return self._json({"files": [{**f, "shouldIgnore": False} for f in answer]})
        repo, _, branch = repo.partition("/commit/")
        if repo in self.server.refusals:
            return self._send(self.server.refusals[repo], b"{}", {})
        lines = [json.loads(line) for line in body.splitlines()]
        files = {
            line["value"]["path"]: base64.b64decode(line["value"]["content"])
            for line in lines
            if line["key"] == "file"
        }
        header = next(line["value"] for line in lines if line["key"] == "header")
        told = {"branch": branch, "query": url.query, "header": header, "files": files}
        self.server.commits.append(told | {"token": self.headers["Authorization"]})
        if "create_pr" not in url.query:
            for name, data in files.items():
                path = self.server.folder / repo / name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(data)
        return self._json(
            {
                "commitUrl": f"{self.server.url}/{repo}/commit/{SHA}",
                "commitOid": SHA,
                "pullRequestUrl": f"{self.server.url}/{repo}/discussions/1",
            }
        )

    def _file(self, path: Path, sha: str) -> None:
        if not path.is_file():
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        data = path.read_bytes()
        etag = f'"{path.name}-{hashlib.sha256(data).hexdigest()}"'
        headers = {"ETag": etag, "X-Repo-Commit": sha}
        if path.name in self.server.drips and self.command == "GET":
            return self._drip(data, headers)
        return self._send(200, data, headers, self.server.cut)

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
        if self.command in ("GET", "POST"):
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
