"""What docs/deployment.md promises, of app.py as it is started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.helpers.patience import PATIENCE_S
from tests.helpers.server import ROOT, playground, process

_JSON = {"content-type": "application/json"}


def _client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=PATIENCE_S)


@pytest.mark.nightly
def test_a_classroom_is_served_by_every_process_and_outlives_the_one_that_opened_it(tmp_path):
    storage = tmp_path / "journal.db"
    with (
        process(tmp_path / "one.txt", journal=storage) as (first, killed),
        playground(tmp_path / "two.txt", journal=storage) as second,
        _client(first) as teacher,
        _client(second) as pupil,
    ):
        lesson = json.dumps({"lesson": "temperature"})
        opened = teacher.post("/rooms", content=lesson, headers=_JSON).json()
        room = f"/room/{opened['code']}"
        assert pupil.get(room).status_code == 200
        cookie = dict(pupil.cookies)
        killed.send_signal(signal.SIGKILL)
        killed.wait(PATIENCE_S)
        assert pupil.get(room).status_code == 200
        assert dict(pupil.cookies) == cookie, "the pupil did not enter a second time"
        secret = {"x-room-secret": opened["secret"]}
        for card, status in ((2, 200), (999, 400)):
            act = json.dumps({"act": "show", "card": card})
            answer = pupil.post(f"{room}/teach", content=act, headers=_JSON | secret)
            assert answer.status_code == status, answer.text
    assert storage.stat().st_mode & 0o777 == 0o600


def _upload(url: str) -> str:
    """Upload a file and return its path on the server."""
    with _client(url) as client:
        answer = client.post("/gradio_api/upload", files={"files": ("a.json", b"{}")})
    assert answer.status_code == 200, answer.text
    return answer.json()[0]


@pytest.mark.nightly
def test_the_owners_files_in_the_upload_folder_stay_and_those_of_a_killed_server_go(
    tmp_path, monkeypatch
):
    there = tmp_path / "uploads"
    own = there / "years" / "old.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    os.utime(own, (0, 0))
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(there))
    with process(tmp_path / "killed.txt") as (url, killed):
        left = Path(_upload(url))
        assert left.is_relative_to(there)
        killed.kill()
        killed.wait(PATIENCE_S)
    assert left.exists()
    with playground(tmp_path / "next.txt") as url:
        assert not left.exists(), "the next start removes what a killed process left"
        assert Path(_upload(url)).is_relative_to(there)
    assert [path for path in there.rglob("*") if path.is_file()] == [own]
    assert own.read_text() == "mine"
    assert [path.name for path in there.iterdir()] == ["years"]


def _create_upload_folder() -> subprocess.CompletedProcess[str]:
    code = "from playground.storage.uploads import UPLOADS; print(UPLOADS.folder)"
    return subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=ROOT, capture_output=True, text=True
    )


def test_an_upload_folder_setting_that_is_a_file_is_refused_at_the_start(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "file"))
    said = _create_upload_folder().stderr.strip().splitlines()[-1]
    assert said.endswith("it must be a folder that can be written (FileExistsError)"), said
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("given", ["", "  "])
def test_an_empty_upload_folder_setting_is_not_the_working_folder(given, monkeypatch, tmp_path):
    monkeypatch.setenv("GRADIO_TEMP_DIR", given)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    run = _create_upload_folder()
    assert run.returncode == 0, run.stderr
    folder = Path(run.stdout.strip())
    assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []
