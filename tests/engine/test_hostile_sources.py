"""Hostile methods that are only read or listened to: one sentence each, and nothing of them is run."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess

import pytest

from engine.errors import MethodError
from engine.sandbox.folder import MAX_BYTES, read_method
from engine.sandbox.outcome import MessageReader, describe_exit
from engine.sandbox.requirements import MAX_REQUIREMENTS
from engine.sandbox.return_value import MAX_IDS
from engine.trace.checks import MAX_STEPS
from tests.helpers.methods import write_method
from tests.helpers.sentences import clean

PLAIN = "def generate(model, **kwargs): pass\n"
NO_SOURCE = "custom_generate/generate.py is no Python source."
TOO_LARGE = "m is too large: a method may have 64 files and 1,000 kB"
ENTRY = "custom_generate/generate.py"
NO_REQUIREMENT = "custom_generate/requirements.txt, line 1: {} is no requirement."
ACTS = {
    "no generate": (
        {"source": "generate = print"},
        f"{ENTRY} has no function generate(model, ...).",
    ),
    "generate is awaited": (
        {"source": "async def generate(model): pass"},
        f"{ENTRY} has no function",
    ),
    "no model in its signature": (
        {"source": "def generate(*, a): pass"},
        f"{ENTRY}, line 1: generate must take the model by that name, as in def generate(model",
    ),
    "a syntax error": (
        {"source": "def generate(model:\n"},
        f"{ENTRY}, line 1: '(' was never closed.",
    ),
    "a byte of nothing": ({"source": "\0"}, "custom_generate/generate.py"),
    "signs without end": ({"source": f"x = {'-' * 400_000}1\n{PLAIN}"}, NO_SOURCE),
    "a sum without end": ({"source": f"x = 1{'+1' * 200_000}\n{PLAIN}"}, NO_SOURCE),
    "brackets without end": (
        {"source": "(" * 100_000},
        "custom_generate/generate.py, line 1: too many nested",
    ),
    "a number without end": (
        {"source": f"x = {'9' * 5000}\n{PLAIN}"},
        "custom_generate/generate.py, line 1: Exceeds",
    ),
    "letters that hide others": (
        {"source": f"# coding: utf-7\n# +AAo-import os\n{PLAIN}"},
        f"{ENTRY} is written in utf-7; it must be UTF-8, so that what is read is what runs.",
    ),
    "a package that is not here": (
        {"source": f"import nowhere_found\n{PLAIN}"},
        f"{ENTRY}, line 1: there is no package",
    ),
    "100 MB of source": ({"source": PLAIN, "size": 100_000_000}, TOO_LARGE),
    "a million and one bytes": ({"source": PLAIN + "#" * MAX_BYTES}, TOO_LARGE),
    "65 files": ({"source": PLAIN, **{f"m{i}": "" for i in range(64)}}, TOO_LARGE),
    "nested requirements": (
        {"source": PLAIN, "requirements": f"torch; {'(' * 5000}os_name == 'x'{')' * 5000}"},
        NO_REQUIREMENT.partition("{")[0],
    ),
    "a requirement that cannot be compared": (
        {"source": PLAIN, "requirements": "torch; python_version ~= 'abc'"},
        NO_REQUIREMENT.format("\"torch; python_version ~= 'abc'\""),
    ),
    "a requirement that steers a terminal": (
        {"source": PLAIN, "requirements": "a @ http://b/\x1b[2J"},
        NO_REQUIREMENT.format(r"'a @ http://b/\x1b[2J'"),
    ),
    "an option of pip": (
        {"source": PLAIN, "requirements": "--index-url=http://b"},
        NO_REQUIREMENT.format("'--index-url=http://b'"),
    ),
    "requirements without end": (
        {"source": PLAIN, "requirements": "a\n" * (MAX_REQUIREMENTS + 1)},
        "custom_generate/requirements.txt is too long",
    ),
}


@pytest.mark.parametrize("act", ACTS)
def test_what_is_read_is_refused_in_one_sentence(act, tmp_path):
    (files, sentence), size = ACTS[act], ACTS[act][0].get("size")
    folder = write_method(tmp_path / "m", **{k: v for k, v in files.items() if k != "size"})
    if size:
        os.truncate(folder / "custom_generate" / "generate.py", size)
    with pytest.raises(MethodError) as raised:
        read_method(folder)
    assert clean(str(raised.value)).startswith(sentence)


HARMLESS = {
    "an annotation without end": {
        "source": f"def generate(model, a: {'not ' * 700}1 = 3, **kw): pass\n"
    },
    "blank lines without end": {"source": PLAIN, "readme": "\n" * 900_000},
    "bars without end": {"source": PLAIN, "readme": "|a|" * 300_000 + "x"},
    "tries in tries": {
        "source": "".join(f"{' ' * i}try:\n" for i in range(90))
        + f"{' ' * 90}x = [{'1,' * 100_000}]\n"
        + "".join(f"{' ' * i}except E: pass\n" for i in range(89, -1, -1))
        + PLAIN,
    },
    "itself as a package": {"source": f"import __main__\n{PLAIN}"},
    "half of a character": {"source": "def generate(model, a='\\ud800', **kw): pass\n"},
}


@pytest.mark.parametrize("act", HARMLESS)
def test_what_would_keep_the_reader_busy_is_read(act, tmp_path):
    """Each of them once took minutes, or was a traceback."""
    method = read_method(write_method(tmp_path / "m", **HARMLESS[act]))
    assert [(a.name, a.kind) for a in method.arguments] in ([], [("a", "json")])
    assert len(method.sha256) == 64


def _link_for_a_folder(folder):
    (folder / "custom_generate").rename(folder / "elsewhere")
    (folder / "custom_generate").symlink_to(folder / "elsewhere")


PLACES = {
    "a link": (
        lambda f: (f / "custom_generate/a.py").symlink_to("/etc/passwd"),
        "custom_generate/a.py is a link",
    ),
    "a link for its folder": (_link_for_a_folder, "custom_generate is a link"),
    "a link for its README": (
        lambda f: (f / "README.md").symlink_to("/nowhere"),
        "README.md is a link",
    ),
    "a pipe": (
        lambda f: os.mkfifo(f / "custom_generate/a.py"),
        "custom_generate/a.py is no plain file",
    ),
    "a name that is no text": (
        lambda f: (f / "custom_generate" / os.fsdecode(b"\xff.py")).touch(),
        r"'custom_generate/\\udcff.py' is not allowed",
    ),
    "a name that steers": (
        lambda f: (f / "custom_generate" / "\x1b[2J.py").touch(),
        r"'custom_generate/\\x1b[2J.py' is not allowed",
    ),
    "folders without end": (
        lambda f: [(f / "custom_generate" / str(i)).mkdir() for i in range(300)],
        TOO_LARGE,
    ),
}


@pytest.mark.parametrize("act", PLACES)
def test_what_is_no_plain_file_is_refused(act, tmp_path):
    folder = write_method(tmp_path / "m", PLAIN)
    spoil, sentence = PLACES[act]
    spoil(folder)
    with pytest.raises(MethodError) as raised:
        read_method(folder)
    assert clean(str(raised.value)).startswith(sentence.replace(r"\\", "\\"))


def test_a_name_that_is_too_long_is_one_sentence(tmp_path):
    with pytest.raises(MethodError, match=r"cannot be read: File name too long\.$"):
        read_method(tmp_path / ("a" * 300))


def test_bad_requirements_are_named_and_never_installed(tmp_path, monkeypatch):
    def started(*args, **kwargs):
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess.Popen, "__init__", started)
    monkeypatch.setattr(os, "system", started)
    before = sorted(str(d.metadata["Name"]) for d in importlib.metadata.distributions())
    needs = "# needed\nnowhere_to_be_found\ntorch>=99.0\nsafetensors\n"
    with pytest.raises(MethodError) as raised:
        read_method(write_method(tmp_path / "m", PLAIN, requirements=needs))
    torch = importlib.metadata.version("torch")
    assert str(raised.value) == (
        f"The method needs nowhere_to_be_found (installed: none), torch>=99.0 (installed: {torch})."
        " Nothing is installed for it; pip install nowhere_to_be_found 'torch>=99.0' would bring it."
    )
    assert before == sorted(str(d.metadata["Name"]) for d in importlib.metadata.distributions())


END = {"start": 1, "passes": 2, "sequences": [[1, 2]], "notes": []}
LIES = {
    "no text": "end",
    "no rows": END | {"sequences": 5},
    "an id beyond the model's": END | {"sequences": [[1, 10]]},
    "a negative id": END | {"sequences": [[-1]]},
    "an id that is text": END | {"sequences": [["1"]]},
    "an id that is true": END | {"sequences": [[True]]},
    "an infinite start": END | {"start": float("inf")},
    "a negative start": END | {"start": -1},
    "no passes": END | {"passes": None},
    "too many ids": END | {"sequences": [[1] * (MAX_IDS + 1)]},
    "an error that is none": {"error": "yes"},
}


@pytest.mark.parametrize("lie", LIES)
def test_an_end_that_says_nothing_is_no_outcome(lie):
    with pytest.raises(
        MethodError, match=r"^The method's process ended with a message that says nothing"
    ):
        MessageReader(10).read_outcome(LIES[lie])
    assert MessageReader(10).read_outcome(END).sequences == ((2,),)


def test_an_error_that_is_reported_stays_one_short_line():
    long = "a\nb" * 10_000
    for error in (
        {"kind": long, "text": long, "file": long, "line": long},
        {"kind": [long], "text": None, "file": [long], "line": {}},
    ):
        with pytest.raises(MethodError) as raised:
            MessageReader(10).read_outcome({"error": error})
        clean(str(raised.value))


def _step(**fields):
    return {"step": {"index": 0, "keep": 0, "emit": [1]} | fields}


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ({}, "The method wrote into the pipe"),
        ({"step": 5}, "The method wrote into the pipe"),
        ({"step": {"index": 0, "keep": "a", "emit": []}}, "The method wrote into the pipe"),
        (_step(keep=1), "The method reported an impossible step: it keeps 1 tokens of 0"),
        (_step(sequence=-1), "The method reported an impossible step"),
        (_step(emit=[10]), "The method reported an impossible step"),
    ],
)
def test_a_step_that_cannot_be_is_refused(message, sentence):
    with pytest.raises(MethodError) as raised:
        MessageReader(10).read_step(message)
    assert clean(str(raised.value)).startswith(sentence)


def test_steps_have_an_end():
    hearing = MessageReader(10)
    for _ in range(MAX_STEPS):
        hearing.read_step(_step())
    with pytest.raises(
        MethodError, match=r"^The method made more than 20,000 steps and was ended\.$"
    ):
        hearing.read_step(_step())


def test_every_signal_and_status_is_one_sentence():
    for status in (*range(-64, 0), 0, 255):
        clean(describe_exit(status))
    assert "used too much of the processor" in describe_exit(-signal.SIGXCPU)
