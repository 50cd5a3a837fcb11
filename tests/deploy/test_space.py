"""An upload to a Space sends what a Space needs, shows it first, and later sends only what changed."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version

import httpx
import pytest
from huggingface_hub import constants

from deploy import space, space_files
from tests.helpers import hub_uploads, lock
from tests.helpers.client import Client
from tests.helpers.hub import serving
from tests.helpers.pushing import TOKEN, point
from tests.helpers.sentences import clean
from tests.helpers.server import ROOT, free_port, playground

# The hub's own client has not followed its HTTP library yet.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
TO = "someone/playground"
AT = f"spaces/{TO}"
FILES = {
    "README.md": b"---\nthumbnail: docs/images/a.png\n---\n![A run](docs/images/a.png)\n",
    "app.py": b"print()\n",
    "playground/app.py": b"",
    "playground/odd[1].py": b"1\n",
    "assets/model.safetensors": b"\0" * 2000,
    "docs/images/a.png": b"\x89PNG\0a",
    "docs/images/b.png": b"\x89PNG\0b",
    "docs/usage.md": b"Usage\n",
    "tests/test_it.py": b"",
    "deploy/Dockerfile": b"",
}
SENT = [path for path in FILES if not path.startswith(("tests", "deploy", "docs/images/b"))]


@pytest.fixture
def commit(tmp_path, monkeypatch):
    """Return a function that commits files, None for one that is removed; it returns the commit."""
    root = tmp_path / "repository"
    root.mkdir()
    monkeypatch.setattr(space_files, "ROOT", root)

    def git(*arguments):
        named = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ["git", *named, *arguments], cwd=root, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def save(files):
        for name, data in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink() if data is None else path.write_bytes(data)
        git("add", "--all")
        git("commit", "--quiet", "--message", "A change")
        return git("rev-parse", "HEAD")

    git("init", "--quiet")
    return save


@pytest.fixture
def hub(tmp_path, monkeypatch):
    folder = tmp_path / "hub" / "repositories"
    folder.mkdir(parents=True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with serving(folder) as served:
        point(monkeypatch, served.url)
        yield served


def upload(capsys, *arguments, status=0):
    """Upload; return what it printed."""
    assert space.main(["--to", TO, "--yes", *arguments]) == status
    told = capsys.readouterr()
    assert TOKEN not in told.out + told.err
    return told.out


def refused(capsys, *arguments):
    """Return the one sentence that says why nothing was uploaded."""
    assert space.main(["--to", TO, "--yes", *arguments]) == 2
    told = capsys.readouterr()
    assert TOKEN not in told.out + told.err
    return clean(told.err.strip(), most=250)


def there(hub):
    """Return path -> content of the Space, without what the hub adds itself."""
    folder = hub.folder / AT
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != ".gitattributes"}


def test_a_new_space_gets_the_files_that_it_needs_and_its_variables(hub, commit, capsys):
    sha = commit(FILES)
    said = upload(capsys, "--hardware", "cpu-basic", "--variable", "PLAYGROUND_PUBLIC_WEIGHTS=4bit")
    assert "which will be created" in said
    assert f"Uploaded: {hub.url}/spaces/{TO}" in said
    picture = f"{hub.url}/spaces/{TO}/resolve/main/docs/images/a.png".encode()
    shown = FILES["README.md"].replace(b"docs/images/a.png", picture)
    assert there(hub) == {**{path: FILES[path] for path in SENT}, "README.md": shown}
    assert httpx.get(picture.decode()).content == FILES["docs/images/a.png"]
    [made] = hub.created
    assert (made["type"], made["sdk"], made["hardware"]) == ("space", "gradio", "cpu-basic")
    assert hub.variables[AT] == {
        "PLAYGROUND_COMMIT": sha,
        "PLAYGROUND_ALLOWED_MODELS": space.DEFAULT_MODELS,
        "PLAYGROUND_PUBLIC_WEIGHTS": "4bit",
    }
    [sent] = hub.commits
    assert sent["large"] == ["assets/model.safetensors", "docs/images/a.png"]
    assert sent["token"] == f"Bearer {TOKEN}"


def test_a_second_upload_sends_what_changed_and_removes_what_is_gone(hub, commit, capsys):
    commit(FILES)
    upload(capsys)
    hub.variables[AT]["PLAYGROUND_ALLOWED_MODELS"] = "the/owners"
    large = len(hub.large)
    sha = commit({"app.py": b"print(2)\n", "docs/usage.md": None, "playground/odd[1].py": None})
    said = upload(capsys)
    assert "Changed: 1 files" in said
    assert "Removed: 2 files" in said
    assert "New:" not in said
    sent = hub.commits[-1]
    assert (list(sent["files"]), sent["large"]) == (["app.py"], [])
    assert sorted(sent["gone"]) == ["docs/usage.md", "playground/odd[1].py"]
    assert len(hub.large) == large
    assert there(hub)["app.py"] == b"print(2)\n"
    assert not {"docs/usage.md", "playground/odd[1].py"} & set(there(hub))
    # The owner's own choice stays.
    assert hub.variables[AT] == {
        "PLAYGROUND_COMMIT": sha,
        "PLAYGROUND_ALLOWED_MODELS": "the/owners",
    }
    assert (hub.folder / AT / ".gitattributes").is_file()


def test_what_is_there_already_is_not_uploaded_again(hub, commit, capsys):
    commit(FILES)
    upload(capsys)
    assert "There is nothing to upload" in upload(capsys)
    assert len(hub.commits) == 1
    commit({"docs/usage.md": None})
    upload(capsys)
    assert (hub.commits[-1]["files"], hub.commits[-1]["gone"]) == ({}, ["docs/usage.md"])


@pytest.mark.parametrize("typed", ["n\n", "", "maybe\n"])
def test_nothing_is_uploaded_without_a_yes(hub, commit, capsys, monkeypatch, typed):
    commit(FILES)
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert space.main(["--to", TO]) == 1
    said = capsys.readouterr().out
    assert f"New: {len(SENT)} files" in said
    assert "Nothing was uploaded." in said
    assert not hub.created
    assert not hub.commits


def test_only_what_is_committed_is_uploaded(hub, commit, capsys):
    first = commit(FILES)
    commit({"app.py": b"print(3)\n"})
    (space_files.ROOT / "app.py").write_text("secret\n")
    said = upload(capsys, "--commit", first)
    assert "Changes that are not committed are not uploaded." in said
    assert there(hub)["app.py"] == FILES["app.py"]
    assert hub.variables[AT]["PLAYGROUND_COMMIT"] == first
    assert "is no commit" in refused(capsys, "--commit", "nowhere")


def test_what_the_hub_refuses_is_one_sentence(hub, commit, capsys, monkeypatch):
    commit(FILES)
    hub.wrong_tokens.add(f"Bearer {TOKEN}")
    assert "does not know the token" in refused(capsys)
    hub.wrong_tokens.clear()
    for status, said in ((403, "no right to write"), (402, "paid plan"), (409, "is taken")):
        hub.refusals[AT] = status
        assert said in refused(capsys)
    hub.refusals.clear()
    assert "NAME=VALUE" in refused(capsys, "--variable", "PLAYGROUND_PUBLIC")
    assert "owner/name" in refused(capsys, "--to", "../../etc")
    point(monkeypatch, f"http://127.0.0.1:{free_port()}")
    assert "The hub cannot be reached" in refused(capsys)
    monkeypatch.setenv("HF_TOKEN", "")
    assert "HF_TOKEN is not set" in refused(capsys)
    assert not hub.created
    assert not hub.commits


def test_another_application_under_the_name_is_left_alone(hub, commit, capsys):
    commit(FILES)
    (hub.folder / AT).mkdir(parents=True)
    (hub.folder / AT / "main.py").write_text("theirs")
    assert f"{TO} is taken by another application" in refused(capsys)
    assert there(hub) == {"main.py": b"theirs"}
    assert not hub.commits


def test_a_space_that_changed_meanwhile_is_not_overwritten(hub, commit, capsys, monkeypatch):
    commit(FILES)
    upload(capsys)
    commit({"app.py": b"print(4)\n"})
    plan = space.plan_upload

    def change_meanwhile(*arguments):
        hub.heads[AT] = "f" * 40
        return plan(*arguments)

    monkeypatch.setattr(space, "plan_upload", change_meanwhile)
    assert "has changed since it was looked at" in refused(capsys)
    assert there(hub)["app.py"] == FILES["app.py"]


def test_the_hub_of_the_tests_writes_nothing_outside_its_folder(hub):
    def status(path, body):
        return httpx.post(f"{hub.url}{path}", content=body).status_code

    header = json.dumps({"key": "header", "value": {"summary": "x"}})
    for name in ("../../../evil", "/tmp/evil", "."):
        file = {"path": name, "content": "", "encoding": "base64"}
        body = f"{header}\n{json.dumps({'key': 'file', 'value': file})}"
        assert status(f"/api/spaces/{TO}/commit/main", body) == 400
    named = json.dumps({"organization": "..", "name": "evil"})
    assert status("/api/repos/create", named) == 400
    assert list(hub.folder.parent.iterdir()) == [hub.folder]
    assert not list(hub.folder.iterdir())


def lacking():
    """Return what a Space's own command would still install: what requirements.txt asks for."""
    wanted = lock.requirements(ROOT / "requirements.txt")
    return [str(w) for w in wanted if not w.specifier.contains(version(w.name))]


@pytest.mark.nightly
def test_the_uploaded_files_start_as_a_space_and_decode(hub, capsys, tmp_path, monkeypatch):
    """The packages are those of the tests, as long as requirements.txt is satisfied by them."""
    assert not lacking()
    upload(capsys)
    folder = hub.folder / AT
    sent = there(hub)
    assert all(not hub_uploads.is_binary(d, len(d)) for d in hub.commits[0]["files"].values())
    committed = subprocess.run(
        ["git", "ls-tree", "-r", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    blobs = {line.partition("\t")[2]: line.split()[2] for line in committed.stdout.splitlines()}
    other = [name for name in sent if blobs[name] not in space_files.file_hashes(folder / name)]
    assert other == ["README.md"]
    variables = hub.variables[AT]
    for name, value in {**variables, "SPACE_ID": TO, "PYTHONDONTWRITEBYTECODE": "1"}.items():
        monkeypatch.setenv(name, value)
    with (
        playground(tmp_path / "log.txt", folder=folder, host="127.0.0.1") as url,
        closing(Client(url)) as client,
    ):
        facts = client.get("/audit.json").json()
        assert (facts["commit"], facts["public"]) == (variables["PLAYGROUND_COMMIT"], True)
        assert len(client.works()["token_ids"]) == 3
