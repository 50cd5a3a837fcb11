"""The lock file agrees with the requirements, and with itself."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helpers import lock

LINES = list(lock.requirements(lock.LOCK))
LOCKED = {canonicalize_name(line.name): line for line in LINES}
EXACT = {
    n: next(iter(line.specifier)).version for n, line in LOCKED.items() if n not in lock.RANGES
}
MADE_HERE = lock.LOCK.read_text().startswith(lock.head())


def installed_as_locked(name):
    try:
        return version(name) == EXACT.get(name)
    except PackageNotFoundError:
        return False


def test_a_package_is_locked_once_and_to_one_version():
    assert len(LOCKED) == len(LINES) > 50
    assert list(LOCKED) == sorted(LOCKED)
    for name in EXACT:
        [only] = LOCKED[name].specifier
        assert only.operator == "=="
        assert "+" not in only.version


def fits(wanted):
    """Return whether the lock names what is required, in a version that is allowed."""
    name = canonicalize_name(wanted.name)
    if name in lock.RANGES:
        return LOCKED.get(name) == wanted
    return name in EXACT and wanted.specifier.contains(EXACT[name])


def test_what_is_required_is_locked_within_its_range():
    assert lock.asked()
    wrong = [f"{wanted} has no version in the lock" for wanted in lock.asked() if not fits(wanted)]
    assert not wrong, "\n".join(wrong)


def test_what_a_locked_package_needs_is_locked_within_its_range():
    """Looked up where the very version is installed; another system may need other packages."""
    here = [name for name in EXACT if MADE_HERE and installed_as_locked(name)]
    for name in here:
        for needed in lock.needs(Requirement(name)):
            other = canonicalize_name(needed.name)
            assert other in LOCKED, f"{name} needs {needed}"
            assert other in lock.RANGES or needed.specifier.contains(EXACT[other], prereleases=True)
    assert not MADE_HERE or "pytest" in here


def test_nothing_is_locked_that_nobody_needs():
    """Where all of it is installed as locked, the lock file would be written just so."""
    if MADE_HERE and all(map(installed_as_locked, EXACT)):
        assert lock.locked() == lock.LOCK.read_text()
    roots = {canonicalize_name(wanted.name) for wanted in lock.asked()}
    assert roots <= set(LOCKED)
