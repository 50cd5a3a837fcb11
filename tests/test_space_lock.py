"""A Space's lock has a hash for every file, fits what is asked for, and lacks nothing of it."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helpers import lock, space_lock

TEXT = space_lock.LOCK.read_text()
ENTRIES = space_lock.entries(TEXT)
ASKED = [Requirement(text) for text in space_lock.asked()]
SPACE = {
    "python_version": space_lock.PYTHON,
    "python_full_version": f"{space_lock.PYTHON}.0",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_system": "Linux",
    "sys_platform": "linux",
}
STAND_IN = """
import pathlib, sys
found = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
wanted = pathlib.Path(sys.argv[sys.argv.index("-o") - 1])
"""


def installed_as_locked(wanted):
    """Tell whether a package's needs can be read off what is installed here."""
    try:
        return version(wanted.name) == ENTRIES[canonicalize_name(wanted.name)][0]
    except (PackageNotFoundError, KeyError):
        return False


def renewed(tmp_path, code, before="old\n"):
    """Run the writer with a stand-in for uv; return its status, its sentence and the file."""
    path = tmp_path / "pre-requirements.txt"
    path.write_text(before)
    status, sentence = space_lock.renew(path, (sys.executable, "-c", STAND_IN + code))
    assert "\n" not in sentence
    return status, sentence, path.read_text()


def test_every_line_belongs_to_a_package_with_one_version_and_hashes():
    assert list(ENTRIES) == sorted(ENTRIES)
    assert len(ENTRIES) == len(list(lock.requirements(space_lock.LOCK))) > 50
    for name, (_, hashes) in ENTRIES.items():
        assert hashes, name
        assert len(set(hashes)) == len(hashes)
        assert all(re.fullmatch("[0-9a-f]{64}", found) for found in hashes), name
    lines = sum(1 + len(hashes) for _, hashes in ENTRIES.values())
    assert len(TEXT.splitlines()) == lines + len(space_lock.head(TEXT).splitlines())


def test_a_line_that_lacks_its_hash_is_seen():
    text = f"alpha==1.0 \\\n    --hash=sha256:{'0' * 64}\nbeta==2.0\n"
    assert space_lock.entries(text) == {"alpha": ("1.0", ["0" * 64]), "beta": ("2.0", [])}


def test_its_head_says_what_is_not_as_it_was_tested():
    assert TEXT.startswith(space_lock.head(TEXT))
    [others] = re.findall(r"^# Otherwise .*: (.*)$", TEXT, re.MULTILINE)
    assert f"torch=={ENTRIES['torch'][0]}" in others.split(", ")
    assert "gradio" not in re.findall(r"([\w-]+)==", others)


def test_what_a_space_asks_for_is_locked_within_its_range():
    assert ASKED
    wrong = []
    for wanted in ASKED:
        locked, _ = ENTRIES.get(canonicalize_name(wanted.name), ("none", []))
        if locked == "none" or not wanted.specifier.contains(locked):
            wrong.append(f"{wanted}: {locked} is locked")
    assert not wrong, "\n".join(wrong)


def test_it_is_for_the_python_and_the_gradio_that_the_front_matter_asks_for():
    front = (lock.ROOT / "README.md").read_text().split("---")[1]
    assert f'python_version: "{space_lock.PYTHON}"' in front
    assert f"sdk_version: {ENTRIES['gradio'][0]}\n" in front


def test_what_the_locked_packages_need_on_a_space_is_locked_within_its_range():
    """Looked up where the very version is installed: torch and what Gradio's extras add is not."""
    followed = set()

    def follow(wanted):
        here = installed_as_locked(wanted)
        followed.update([wanted.name] if here else [])
        return here

    for needed in lock.closure(ASKED, SPACE, follow):
        name = canonicalize_name(needed.name)
        assert name in ENTRIES, needed
        assert needed.specifier.contains(ENTRIES[name][0], prereleases=True), needed
    assert "transformers" in followed or not installed_as_locked(Requirement("transformers"))


def test_torchs_own_packages_are_locked():
    """Its wheel for CPUs, with which the tests run, does without them."""
    assert {"triton", "nvidia-cudnn-cu13", "cuda-bindings"} <= set(ENTRIES)


def test_a_new_lock_is_written_with_its_head(tmp_path):
    new = f"torch==2.9.0 \\\n    --hash=sha256:{'1' * 64}\ngradio==0.1\n"
    status, sentence, text = renewed(tmp_path, f"found.write_text({new!r})")
    assert (status, sentence) == (0, "pre-requirements.txt names 2 packages.")
    assert text == space_lock.head(new) + new
    assert "gradio==0.1" in text.splitlines()[2]


def test_uv_is_given_the_tested_versions_and_what_is_asked_for(tmp_path):
    shown = "found.write_text(found.read_text() + wanted.read_text())"
    status, _, text = renewed(tmp_path, shown)
    assert status == 0
    assert lock.LOCK.read_text() in text
    assert text.endswith("\n".join(space_lock.asked()))


@pytest.mark.parametrize(
    ("said", "status", "sentence"),
    [
        (
            "error: Failed to fetch: http://somewhere/\n  cause: Connection refused",
            0,
            "pre-requirements.txt stays as it is: the package index could not be reached.",
        ),
        (
            "error: No solution found\n  cause: as alpha",
            1,
            "pre-requirements.txt stays as it is: error: No solution found cause: as alpha",
        ),
    ],
    ids=["unreachable", "unsolvable"],
)
def test_where_there_is_no_new_lock_the_old_one_stays(tmp_path, said, status, sentence):
    code = f"found.write_text('half of it')\nprint({said!r}, file=sys.stderr)\nsys.exit(2)"
    assert renewed(tmp_path, code) == (status, sentence, "old\n")


def test_an_index_that_does_not_answer_leaves_the_old_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(space_lock, "_LIMIT_S", 0.2)
    status, sentence, text = renewed(tmp_path, "import threading; threading.Event().wait()")
    assert (status, text) == (0, "old\n")
    assert sentence.endswith("the package index did not answer within 0.2 s.")


def test_an_index_where_nobody_listens_leaves_the_old_lock(tmp_path, monkeypatch):
    """With uv itself, where it is installed, and without it where it is not."""
    for name, value in {
        "UV_DEFAULT_INDEX": "http://127.0.0.1:1/simple",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_HTTP_RETRIES": "0",
    }.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "pre-requirements.txt"
    path.write_text("old\n")
    why = "the package index could not be reached" if find_spec("uv") else "uv is not installed"
    assert space_lock.renew(path) == (0, f"pre-requirements.txt stays as it is: {why}.")
    assert path.read_text() == "old\n"


def test_the_lock_of_the_images_has_what_they_ask_for():
    text = space_lock.IMAGES.read_text()
    locked = space_lock.entries(text)
    assert text.startswith(space_lock.head_of_images(text))
    for wanted in map(Requirement, space_lock.asked_in_images()):
        version, hashes = locked[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(version), wanted
        assert hashes, wanted
