"""Looks the locked packages up among known vulnerabilities: ``python -m tests.helpers.audit``.

One question to OSV, https://osv.dev, for all of them. What it has not answered for is named as not
checked and is no failure; only a vulnerability is.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from tests.helpers import lock, space_lock

ADDRESS = "https://api.osv.dev/v1"
LOCKS = (lock.LOCK, space_lock.LOCK)
LIMIT_S = 5.0
"""For the one question, and again for all that is asked about its answer."""
ACCEPTED: dict[str, str] = {}
"""Advisory -> why it touches nothing here."""
_LARGEST = 1 << 24

Package = tuple[str, str]


class Unanswered(Exception):
    """The database gave no answer that can be read; the message says what happened."""


class Database:
    """Asks a database that speaks as OSV does.

    Args:
        address: where its paths begin.
        limit_s: seconds for the first question, and for all others together.
    """

    def __init__(self, address: str, limit_s: float) -> None:
        self._address = address
        self._limit_s = limit_s
        self._until: float | None = None

    def advisories(self, packages: Sequence[Package]) -> list[Any]:
        """Return what is known of each package, in their order; some of it may make no sense.

        Raises:
            Unanswered: there is no answer, or not one for each.
        """
        queries = [
            {"package": {"name": name, "ecosystem": "PyPI"}, "version": version}
            for name, version in packages
        ]
        answer = self._ask("querybatch", self._limit_s, {"queries": queries})
        results = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list) or len(results) != len(packages):
            raise Unanswered("its answer does not fit the question")
        return results

    def advisory(self, name: str) -> dict[str, Any]:
        """Return the record of an advisory.

        Raises:
            Unanswered: there is none that can be read in the time that is left.
        """
        record = self._ask(f"vulns/{quote(name, safe='')}", self.left_s())
        if not isinstance(record, dict):
            raise Unanswered("its answer does not fit the question")
        return record

    def left_s(self) -> float:
        """Return the seconds left for records, which begin with the first; less than 0 if over."""
        self._until = self._until or time.monotonic() + self._limit_s
        return self._until - time.monotonic()

    def _ask(self, path: str, left_s: float, body: object = None) -> Any:
        # A thread, as neither looking up a name nor an answer that drips keeps to a time-out.
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        request = Request(
            f"{self._address}/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        threading.Thread(target=_fetch, args=(request, self._limit_s, answers), daemon=True).start()
        try:
            answer = answers.get(timeout=max(0.0, left_s))
        except queue.Empty:
            answer = TimeoutError()
        if isinstance(answer, Exception):
            raise Unanswered(self._said(answer))
        return answer

    def _said(self, error: Exception) -> str:
        if isinstance(error, HTTPError):
            error.close()
            return f"it answered with status {error.code}"
        if not isinstance(error, OSError):
            return "its answer cannot be read"
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            return f"it did not answer within {self._limit_s:g} s"
        return f"it could not be reached: {reason}"


def _fetch(request: Request, limit_s: float, answers: queue.SimpleQueue[Any]) -> None:
    try:
        with urlopen(request, timeout=limit_s) as response:
            answers.put(json.loads(response.read(_LARGEST)))
    except Exception as error:
        answers.put(error)


def exact(paths: Sequence[Path]) -> tuple[list[Package], list[str]]:
    """Return the packages that locks name, each with its version, and those that have none.

    Of what keeps a range the version is looked up that is installed.
    """
    packages: set[Package] = set()
    ranges: set[str] = set()
    for wanted in (wanted for path in paths for wanted in lock.requirements(path)):
        versions = [s.version for s in wanted.specifier if s.operator == "=="]
        found = versions[0] if len(versions) == 1 else _installed(wanted.name)
        if found is None:
            ranges.add(str(wanted))
        else:
            packages.add((canonicalize_name(wanted.name), found))
    return sorted(packages), sorted(ranges)


def _installed(name: str) -> str | None:
    try:
        # Advisories know nothing of a build's own mark, as in 2.13.0+cpu.
        return Version(version(name)).public
    except PackageNotFoundError:
        return None


def audit(
    database: Database,
    paths: Sequence[Path] = LOCKS,
    accepted: Mapping[str, str] = ACCEPTED,
) -> tuple[int, list[str]]:
    """Look up what is locked.

    Returns:
        (exit status, lines to print): 1 where something is known to be vulnerable, else 0.
    """
    packages, ranges = exact(paths)
    where = " and ".join(path.name for path in paths)
    lines = []
    if ranges:
        lines.append(f"not checked: {', '.join(ranges)}: no one version is locked or installed")
    try:
        results = database.advisories(packages) if packages else []
    except Unanswered as error:
        every = f"all {len(packages)} packages of {where}"
        return 0, [*lines, f"not checked: {every}: OSV was asked, and {error}"]
    status, unclear = 0, []
    for package, result in zip(packages, results, strict=True):
        names = _names(result)
        if names is None or result.get("next_page_token"):
            unclear.append(" ".join(package))
        for found, line in _known(database, package, names or [], accepted):
            status |= found
            lines.append(line)
    if unclear:
        lines.append(f"not checked: {', '.join(unclear)}: OSV answered in part only")
    checked = len(packages) - len(unclear)
    if not checked:
        return status, [*lines, f"not checked: {where}: no package of it was looked up"]
    told = "something is known, see above" if status else "nothing is known against them"
    return status, [*lines, f"checked: {checked} packages of {where} in OSV: {told}"]


def _names(result: Any) -> list[str] | None:
    """Return the advisories that a result names, or None where it cannot be read."""
    if not isinstance(result, dict):
        return None
    found = result.get("vulns", [])
    if not isinstance(found, list) or not all(isinstance(v, dict) for v in found):
        return None
    names = [v.get("id") for v in found]
    return names if all(isinstance(name, str) for name in names) else None


def _known(
    database: Database, package: Package, names: Sequence[str], accepted: Mapping[str, str]
) -> list[tuple[bool, str]]:
    """Return (whether it fails the audit, line) of each advisory; one under two names comes once."""
    lines: list[tuple[bool, str]] = []
    seen: set[str] = set()
    for name in names:
        also: list[str] = []
        try:
            record = database.advisory(name)
            if record.get("withdrawn"):
                continue
            also, fixed = _aliases(record), _fixed(record, package)
        except Unanswered as error:
            fixed = f"what mends it is not known: OSV was asked, and {error}"
        if seen & {name, *also}:
            continue
        seen |= {name, *also}
        said = " ".join([*package, *dict.fromkeys([name, *also])])
        reasons = [accepted[a] for a in (name, *also) if a in accepted]
        if reasons:
            lines.append((False, f"accepted: {said}: {reasons[0]}"))
        else:
            lines.append((True, f"vulnerable: {said}: {fixed}"))
    return lines


def _aliases(record: Mapping[str, Any]) -> list[str]:
    found = record.get("aliases")
    return [a for a in found if isinstance(a, str)] if isinstance(found, list) else []


def _fixed(record: Mapping[str, Any], package: Package) -> str:
    """Return which version mends what an advisory tells of.

    Raises:
        Unanswered: the record cannot be read.
    """
    name, locked = package
    try:
        versions = [
            Version(event["fixed"])
            for affected in record.get("affected", ())
            if canonicalize_name(affected.get("package", {}).get("name", "")) == name
            for span in affected.get("ranges", ())
            if span.get("type") == "ECOSYSTEM"
            for event in span["events"]
            if "fixed" in event
        ]
    except (AttributeError, KeyError, TypeError, InvalidVersion):
        raise Unanswered("the record cannot be read") from None
    later = [fixed for fixed in versions if fixed > Version(locked)]
    return f"fixed in {min(later)}" if later else "no version is known that mends it"


if __name__ == "__main__":
    status, lines = audit(Database(ADDRESS, LIMIT_S))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.exit(status)
