"""Two web processes behind the proxy of the Compose file: one door, and a run goes on behind it when one is killed."""

from __future__ import annotations

import re
import subprocess
from contextlib import closing, contextmanager

import httpx
import pytest

from tests.helpers.going_on import Run, begun, check, page_at
from tests.helpers.haproxy import haproxy
from tests.helpers.patience import comes_true
from tests.helpers.server import ROOT, free_port, process

pytestmark = pytest.mark.skipif(haproxy() is None, reason="there is no haproxy here")


@contextmanager
def door(folder, ports):
    """Serve the file that is deployed, with these processes behind it; yields its address."""
    port = free_port()
    text = (ROOT / "deploy/haproxy.cfg").read_text().replace("bind :8080", f"bind 127.0.0.1:{port}")
    for number, behind in enumerate(ports, 1):
        text = text.replace(f"web-{number}:7860", f"127.0.0.1:{behind}")
    assert not re.search(r":7860|:8080", text)
    file = folder / "haproxy.cfg"
    file.write_text(text)
    with (folder / "door.txt").open("w") as log:
        served = subprocess.Popen([haproxy(), "-f", str(file), "-db"], stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        served.terminate()
        served.wait()


@pytest.fixture
def hall(tmp_path):
    """Yield the door's address, and the processes by the name that their cookie has."""
    about = {"journal": tmp_path / "journal.db", "process_gone_s": 2.0, "public": 1}
    ports = free_port(), free_port()
    with (
        process(tmp_path / "1.txt", port=ports[0], **about) as (_, first),
        process(tmp_path / "2.txt", port=ports[1], **about) as (_, second),
        door(tmp_path, ports) as url,
    ):
        comes_true(lambda: answers(url))
        yield url, {"1": first, "2": second}


def answers(url):
    try:
        return httpx.get(f"{url}/here", params={"press": ""}, trust_env=False).status_code < 500
    except httpx.TransportError:
        return False


def test_a_run_continues_behind_the_door_when_its_process_is_killed(hall):
    url, processes = hall
    mine, others = Run("sampling", seed=3, temperature=1.3), Run("greedy")
    page, other = page_at(url), page_at(url)
    with closing(page.http), closing(other.http):
        mine.press(page)
        mine.follow(page, begun)
        others.press(other)
        at = page.http.cookies["playground_at"]
        processes[at].kill()
        processes[at].wait()
        mine.stay(page)
        others.stay(other)
        check(mine)
        check(others)
        assert page.http.cookies["playground_at"] != at
        assert page.http.get("/metrics").status_code == 404
