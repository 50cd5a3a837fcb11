"""How a local hub takes uploads: new repositories, large files, commits, and variables of Spaces."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

SHA = "0123456789abcdef0123456789abcdef01234567"
MAX_PLAIN_BYTES = 10 * 2**20
"""A larger file is refused unless it was uploaded as a large one, as on the real hub."""
_SAMPLE = 512


def repository(path: str) -> str:
    """Return the repository of an address: ``owner/name``, or ``spaces/owner/name``."""
    parts = path.removeprefix("/api").removeprefix("/models").split("/")[1:]
    return "/".join(parts[: 3 if parts[0] == "spaces" else 2]).removesuffix(".git")


def is_binary(sample: bytes, size: int) -> bool:
    """Tell whether the hub takes a file of a Space as a large one only."""
    return b"\0" in sample[:_SAMPLE] or size > MAX_PLAIN_BYTES


def answer_put(handler: Any) -> None:
    """Take the content of a large file; its address is its SHA-256."""
    data = handler.rfile.read(int(handler.headers["Content-Length"]))
    oid = urlparse(handler.path).path.rpartition("/")[2]
    if hashlib.sha256(data).hexdigest() != oid:
        return handler._send(400, b"{}", {})
    handler.server.large[oid] = data
    return handler._send(200, b"", {})


def answer_post(handler: Any, body: bytes) -> None:
    """Answer what the hub's client posts."""
    url = urlparse(handler.path)
    repo = repository(url.path)
    if url.path == "/api/validate-yaml":  # the front matter of a README
        return handler._json({"errors": [], "warnings": []})
    if url.path == "/api/repos/create":
        return _create(handler, json.loads(body))
    if repo in handler.server.refusals:
        return handler._send(handler.server.refusals[repo], b"{}", {})
    if "/preupload/" in url.path:
        return _choose_modes(handler, repo, json.loads(body)["files"])
    if url.path.endswith("/objects/batch"):
        return _take_large(handler, json.loads(body)["objects"])
    if url.path.endswith("/variables"):
        said = json.loads(body)
        handler.server.variables.setdefault(repo, {})[said["key"]] = said["value"]
        return handler._json(variables(handler.server, repo))
    return _commit(handler, repo, body)


def variables(hub: Any, repo: str) -> dict[str, Any]:
    """Return a Space's variables as the hub shows them."""
    return {key: {"key": key, "value": v} for key, v in hub.variables.get(repo, {}).items()}


def _create(handler: Any, said: dict[str, Any]) -> None:
    hub = handler.server
    prefix = "spaces/" if said.get("type") == "space" else ""
    repo = f"{prefix}{said['organization']}/{said['name']}"
    folder = _inside(hub.folder, repo)
    if folder is None:
        return handler._send(400, b"{}", {})
    if repo in hub.refusals or folder.exists():
        return handler._send(hub.refusals.get(repo, 409), b"{}", {})
    folder.mkdir(parents=True)
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs diff=lfs merge=lfs -text\n")
    hub.created.append(said)
    hub.variables[repo] = {v["key"]: v["value"] for v in said.get("variables", ())}
    return handler._json({"url": f"{hub.url}/{repo}", "id": repo})


def _choose_modes(handler: Any, repo: str, files: list[dict[str, Any]]) -> None:
    """Say of every file whether it is to be sent as a large one; a Space's binaries are."""
    space = repo.startswith("spaces/")
    modes = (space and is_binary(base64.b64decode(file["sample"]), file["size"]) for file in files)
    answer = [
        {"path": f["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
        for f, large in zip(files, modes, strict=True)
    ]
    return handler._json({"files": answer})


def _take_large(handler: Any, objects: list[dict[str, Any]]) -> None:
    """Say where each large file goes; one that is here already goes nowhere."""
    hub = handler.server
    upload = [
        o
        if o["oid"] in hub.large
        else {**o, "actions": {"upload": {"href": f"{hub.url}/lfs/{o['oid']}", "header": {}}}}
        for o in objects
    ]
    return handler._json({"transfer": "basic", "objects": upload})


def _commit(handler: Any, repo: str, body: bytes) -> None:
    hub, url = handler.server, urlparse(handler.path)
    lines = [json.loads(line) for line in body.splitlines()]
    values = [(line["key"], line["value"]) for line in lines]
    header = next(value for key, value in values if key == "header")
    files = {v["path"]: base64.b64decode(v["content"]) for key, v in values if key == "file"}
    large = {v["path"]: hub.large.get(v["oid"]) for key, v in values if key == "lfsFile"}
    gone = [v["path"] for key, v in values if key in ("deletedFile", "deletedFolder")]
    folder = _inside(hub.folder, repo)
    space = repo.startswith("spaces/")
    if folder is None or any(_inside(folder, name) is None for name in (*files, *large, *gone)):
        return handler._send(400, b"{}", {})
    if None in large.values() or (space and any(is_binary(d, len(d)) for d in files.values())):
        return handler._send(400, b"{}", {})
    if space and header.get("parentCommit", head(hub, repo)) != head(hub, repo):
        return handler._send(412, b"{}", {})
    branch = url.path.partition("/commit/")[2]
    told = {"branch": branch, "query": url.query, "header": header, "files": files}
    told |= {"large": sorted(large), "gone": gone, "token": handler.headers.get("Authorization")}
    hub.commits.append(told)
    if "create_pr" not in url.query:
        _apply(folder, {**files, **large}, gone)
        hub.heads[repo] = hashlib.sha1(body).hexdigest() if space else SHA
    sha = head(hub, repo)
    return handler._json(
        {
            "commitUrl": f"{hub.url}/{repo}/commit/{sha}",
            "commitOid": sha,
            "pullRequestUrl": f"{hub.url}/{repo}/discussions/1",
        }
    )


def head(hub: Any, repo: str) -> str:
    """Return the newest commit of a repository."""
    return hub.heads.get(repo, SHA)


def _apply(folder: Path, files: dict[str, Any], gone: list[str]) -> None:
    for name in gone:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _inside(folder: Path, name: str) -> Path | None:
    """Return a path below a folder; None for one that leaves it or is the folder itself."""
    path = (folder / name).resolve()
    return path if path.is_relative_to(folder.resolve()) and path != folder.resolve() else None
