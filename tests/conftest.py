"""What holds for all tests: nothing is kept for a later server or a later test unless a test says where."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections import defaultdict

import pytest

from tests.helpers.llama_cpp import install
from tests.helpers.nightly import cases_by_day

os.environ["PLAYGROUND_JOURNAL"] = ""
# Exported code must end, however busy the machine is.
os.environ["PLAYGROUND_MAX_CHECK_S"] = "600"
os.environ["PLAYGROUND_METHODS"] = tempfile.mkdtemp(prefix="methods.")
LONGEST = "test_recipes.py"


# Modules and collected tests live to the end, and no search for garbage has to look through them again.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage from here on, of what the tests make."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items) -> None:
    """Leave to the night what the mark ``by_day`` of a test leaves out, and begin with the longest file.

    Raises:
        pytest.UsageError: the mark names a case that there is not.
    """
    # At the end it would run alone.
    items.sort(key=lambda item: item.path.name != LONGEST)
    tests = defaultdict(list)
    for item in items:
        if item.get_closest_marker("by_day") and not item.get_closest_marker("nightly"):
            tests[item.nodeid.split("[")[0]].append(item)
    for test, cases in tests.items():
        if any(place.startswith(f"{test}[") for place in config.args):
            continue  # asked for by name
        marks = cases[0].get_closest_marker("by_day").args
        try:
            stay = cases_by_day([case.callspec.id for case in cases], marks)
        except ValueError as error:
            raise pytest.UsageError(f"by_day of {test}: {error}") from None
        for case in cases:
            if case.callspec.id not in stay:
                case.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="session")
def llama_cpp(tmp_path_factory):
    """Return the Python that has llama.cpp's server, and a model for it."""
    return install(tmp_path_factory.mktemp("llama.cpp"))


@pytest.fixture(scope="module")
def served_here():
    """Return the address of a server in this process, and Gradio's app; a test can hold its models."""
    # Not above, as it imports torch, which `make quick` does without.
    from tests.helpers.served import served

    with served() as address_and_app:
        yield address_and_app


@pytest.fixture(scope="module")
def here(served_here):
    """Return the address of that server."""
    return served_here[0]


def pytest_sessionfinish() -> None:
    """Remove it; a worker of several is ended as soon as its session is."""
    shutil.rmtree(os.environ["PLAYGROUND_METHODS"], ignore_errors=True)
