"""The audit names what is known to be vulnerable, and never calls checked what was not."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import packaging
import pytest

from tests.helpers import audit
from tests.helpers.patience import PATIENCE_S
from tests.helpers.server import ROOT

LOCK = """\
# A lock.
alpha==1.0 \\
    --hash=sha256:00
Be.ta==2.0
"""
RECORD = {
    "id": "GHSA-1",
    "aliases": ["CVE-1", "PYSEC-1"],
    "affected": [
        {
            "package": {"name": "other"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"fixed": "9"}]}],
        },
        {
            "package": {"name": "Alpha", "ecosystem": "PyPI"},
            "ranges": [
                {"type": "GIT", "events": [{"introduced": "0"}, {"fixed": "8a1f"}]},
                {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "0.9"}]},
                {"type": "ECOSYSTEM", "events": [{"introduced": "1"}, {"fixed": "1.10"}]},
                {"type": "ECOSYSTEM", "events": [{"introduced": "1"}, {"fixed": "1.9"}]},
            ],
        },
    ],
}
FOUND = {"results": [{"vulns": [{"id": "GHSA-1"}, {"id": "PYSEC-1"}]}, {}]}
NOTHING = {"results": [{}, {"vulns": []}]}
CLEAN = "checked: 2 packages of one.lock in OSV: nothing is known against them"
NOT_ONE = "not checked: all 2 packages of one.lock: OSV was asked, and "


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        """Stay silent."""

    def do_GET(self):
        length = int(self.headers.get("Content-Length", 0))
        self.server.asked.append((self.path, json.loads(self.rfile.read(length) or "null")))
        answer = self.server.answers.get(self.path, 404)
        if answer == "never":
            self.server.closing.wait(PATIENCE_S)
            return
        status, body = (answer, b"") if isinstance(answer, int) else (200, answer)
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.drip(body) if self.server.drips else self.wfile.write(body)

    def do_POST(self):
        self.do_GET()

    def drip(self, body):
        for byte in body[:-1]:
            self.wfile.write(bytes([byte]))
            if self.server.closing.wait(0.02):
                return


@contextmanager
def serving(answers, drips=False):
    """Serve a database whose answers are path -> JSON, bytes, status or "never"."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.answers = {f"/{path}": answer for path, answer in answers.items()}
    server.asked, server.drips, server.closing = [], drips, threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "one.lock"
    path.write_text(LOCK)
    return path


def audited(path, answers, *, limit_s=PATIENCE_S, drips=False, accepted=None):
    """Return the audit's status and lines, and what the database was asked."""
    with serving(answers, drips) as server:
        database = audit.Database(f"http://127.0.0.1:{server.server_port}", limit_s)
        status, lines = audit.audit(database, [path], accepted or {})
        return status, lines, server.asked


def test_all_packages_are_asked_for_at_once(path):
    status, lines, asked = audited(path, {"querybatch": NOTHING})
    queries = [
        {"package": {"name": "alpha", "ecosystem": "PyPI"}, "version": "1.0"},
        {"package": {"name": "be-ta", "ecosystem": "PyPI"}, "version": "2.0"},
    ]
    assert asked == [("/querybatch", {"queries": queries})]
    assert (status, lines) == (0, [CLEAN])


def test_a_vulnerability_is_named_once_with_the_nearest_version_that_mends_it(path):
    other = {"id": "PYSEC-1", "aliases": ["CVE-1"]}
    answers = {"querybatch": FOUND, "vulns/GHSA-1": RECORD, "vulns/PYSEC-1": other}
    status, lines, _ = audited(path, answers)
    assert status == 1
    assert lines == [
        "vulnerable: alpha 1.0 GHSA-1 CVE-1 PYSEC-1: fixed in 1.9",
        "checked: 2 packages of one.lock in OSV: something is known, see above",
    ]


def test_a_vulnerability_that_nothing_mends_is_one(path):
    answers = {"querybatch": FOUND, "vulns/GHSA-1": {}, "vulns/PYSEC-1": {"withdrawn": "2026"}}
    status, lines, _ = audited(path, answers)
    assert status == 1
    assert lines[:-1] == ["vulnerable: alpha 1.0 GHSA-1: no version is known that mends it"]


def test_what_was_withdrawn_is_none(path):
    gone = {"withdrawn": "2026-01-01T00:00:00Z"}
    answers = {"querybatch": FOUND, "vulns/GHSA-1": gone, "vulns/PYSEC-1": gone}
    status, lines, _ = audited(path, answers)
    assert (status, lines) == (0, [CLEAN])


def test_what_is_accepted_is_named_with_its_reason_and_fails_nothing(path):
    answers = {"querybatch": FOUND, "vulns/GHSA-1": RECORD, "vulns/PYSEC-1": RECORD}
    status, lines, _ = audited(path, answers, accepted={"CVE-1": "nobody calls it"})
    assert status == 0
    assert lines == ["accepted: alpha 1.0 GHSA-1 CVE-1 PYSEC-1: nobody calls it", CLEAN]


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (500, "it answered with status 500"),
        (b"<html>", "its answer cannot be read"),
        ([], "its answer does not fit the question"),
        ({"affected": [3]}, "the record cannot be read"),
        ({"affected": 3, "aliases": 3}, "the record cannot be read"),
        (json.loads(json.dumps(RECORD).replace("1.9", "soon")), "the record cannot be read"),
    ],
    ids=["status", "no JSON", "list", "no package", "no list", "no version"],
)
def test_a_vulnerability_without_a_record_is_still_one(path, record, why):
    found = {"results": [{"vulns": [{"id": "GHSA-1"}]}, {}]}
    status, [line, _], _ = audited(path, {"querybatch": found, "vulns/GHSA-1": record})
    assert status == 1
    assert line.startswith("vulnerable: alpha 1.0 GHSA-1")
    assert line.endswith(f"what mends it is not known: OSV was asked, and {why}")


def test_a_record_that_does_not_come_takes_the_limit_once(path):
    with serving({"vulns/GHSA-1": "never", "vulns/PYSEC-1": "never"}) as server:
        database = audit.Database(f"http://127.0.0.1:{server.server_port}", 0.2)
        for name in ("GHSA-1", "PYSEC-1"):
            with pytest.raises(audit.Unanswered, match="did not answer within"):
                database.advisory(name)
            assert database.left_s() <= 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (503, "it answered with status 503"),
        (b"", "its answer cannot be read"),
        (b"<html>Please sign in.</html>", "its answer cannot be read"),
        (b"\xff\xfe", "its answer cannot be read"),
        ([], "its answer does not fit the question"),
        ({}, "its answer does not fit the question"),
        ({"results": [{}]}, "its answer does not fit the question"),
        ({"results": {"0": {}, "1": {}}}, "its answer does not fit the question"),
    ],
    ids=["status", "empty", "page", "bytes", "list", "no results", "too few", "no list"],
)
def test_an_odd_answer_checks_nothing(path, answer, why):
    status, lines, _ = audited(path, {"querybatch": answer})
    assert (status, lines) == (0, [NOT_ONE + why])


def test_a_database_that_is_not_there_checks_nothing(path):
    with serving({}) as server:
        address = f"http://127.0.0.1:{server.server_port}"
    status, [line] = audit.audit(audit.Database(address, PATIENCE_S), [path], {})
    assert status == 0
    assert line.startswith(NOT_ONE + "it could not be reached: ")


@pytest.mark.parametrize("drips", [False, True], ids=["silent", "dripping"])
def test_a_database_that_does_not_answer_in_time_checks_nothing(path, drips):
    answer = {"results": [{}, {"padding": "." * 10_000}]} if drips else "never"
    status, lines, _ = audited(path, {"querybatch": answer}, limit_s=0.2, drips=drips)
    assert (status, lines) == (0, [NOT_ONE + "it did not answer within 0.2 s"])


@pytest.mark.parametrize(
    "odd",
    [None, 3, {"vulns": 3}, {"vulns": [3]}, {"vulns": [{}]}, {"next_page_token": "more"}],
    ids=str,
)
def test_a_package_without_an_answer_of_its_own_is_named(path, odd):
    status, lines, _ = audited(path, {"querybatch": {"results": [{}, odd]}})
    assert status == 0
    assert lines == [
        "not checked: be-ta 2.0: OSV answered in part only",
        "checked: 1 packages of one.lock in OSV: nothing is known against them",
    ]


def test_where_no_package_has_an_answer_nothing_is_called_checked(path):
    status, lines, _ = audited(path, {"querybatch": {"results": [None, None]}})
    assert status == 0
    assert lines == [
        "not checked: alpha 1.0, be-ta 2.0: OSV answered in part only",
        "not checked: one.lock: no package of it was looked up",
    ]


def test_what_was_found_before_an_answer_broke_off_counts(path):
    found = {"vulns": [{"id": "GHSA-1"}], "next_page_token": "more"}
    answers = {"querybatch": {"results": [found, {}]}, "vulns/GHSA-1": RECORD}
    status, lines, _ = audited(path, answers)
    assert status == 1
    assert lines[0].startswith("vulnerable: alpha 1.0 GHSA-1 ")
    assert lines[1] == "not checked: alpha 1.0: OSV answered in part only"


def test_an_empty_lock_is_not_called_checked(path):
    path.write_text("# Nothing.\n")
    status, lines, asked = audited(path, {})
    assert (status, asked) == (0, [])
    assert lines == ["not checked: one.lock: no package of it was looked up"]


def test_a_range_means_the_version_that_is_installed(path):
    path.write_text("packaging>=1,<99\nis-not-installed>=1\n")
    status, lines, asked = audited(path, {"querybatch": {"results": [{}]}})
    [(_, question)] = asked
    assert [q["version"] for q in question["queries"]] == [packaging.__version__]
    assert status == 0
    assert lines[0] == "not checked: is-not-installed>=1: no one version is locked or installed"
    assert lines[1].startswith("checked: 1 packages")


def test_the_locks_are_looked_up_whole():
    packages, ranges = audit.exact(audit.LOCKS)
    names = {name for name, _ in packages}
    assert {"torch", "gradio", "mcp", "pytest"} <= names
    assert not ranges
    assert all("+" not in version for _, version in packages)


@pytest.mark.parametrize("found", [f"{NOT_ONE}it could not be reached: no network", CLEAN])
def test_the_last_line_of_ci_names_what_was_not_looked_up(found, tmp_path):
    make = tmp_path / "make"
    make.write_text(f"#!/bin/sh\ntest $1 != lint || echo '{found}'\n")
    make.chmod(0o755)
    run = subprocess.run(
        [ROOT / ".ci" / "run"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    summary = "Summary: lint, test and test-cluster passed."
    last = [summary, found] if found != CLEAN else [summary]
    assert run.stdout.splitlines()[1:] == last
