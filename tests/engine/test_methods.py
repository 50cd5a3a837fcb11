"""Custom generation methods: read without being run, and recorded from outside while they run."""

from __future__ import annotations

import pytest
import torch

from engine.errors import MethodError, ParameterError
from engine.models.loading import load
from engine.sandbox.arguments import check_arguments
from engine.sandbox.folder import MAX_BYTES, read_method
from engine.sandbox.return_value import read_return_value
from engine.sources.source import Source
from engine.trace.details import ForwardDetail
from engine.trace.records import replay_ids
from tests.helpers.method_processes import SharedProcess
from tests.helpers.methods import PLAIN, job, run_method, write_method

README = """---
tags:
  - custom_generate
---
| argument | type | default | meaning |
|---|---|---|---|
| `strength` | float | 0.5 | how much |
"""
PROMPT = [5, 9, 20, 33]


@pytest.fixture(scope="module")
def process():
    """One confined process with Storyteller in it for all runs of this file."""
    shared = SharedProcess(Source.parse("storyteller").folder())
    yield shared
    shared.end()


def test_a_method_is_read_with_its_arguments_and_never_run(tmp_path):
    source = (
        "raise SystemExit\n"
        "def generate(model, inputs, strength: float = 0.5, words=('a',), turns: int | None = None,"
        " deep=False, *, must, **kwargs):\n    pass\n"
    )
    method = read_method(write_method(tmp_path / "mine", source, readme=README))
    told = {a.name: (a.kind, a.default, a.required) for a in method.arguments}
    assert told == {
        "strength": ("float", 0.5, False),
        "words": ("json", ["a"], False),
        "turns": ("int", None, False),
        "deep": ("bool", False, False),
        "must": ("json", None, True),
    }
    assert (method.name, method.tagged, method.takes_all) == ("mine", True, True)
    assert "how much" in method.arguments[0].told
    assert check_arguments(method.arguments, {"must": 1, "strength": 2}) == {
        "must": 1,
        "strength": 2.0,
    }


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "strength = None is not allowed: the method has no default for it; give a value."),
        ({"strength": "high"}, "strength = 'high' is not allowed: it must be a finite number."),
        ({"strength": float("nan")}, "strength = nan is not allowed: it must be a finite number."),
        (
            {"strength": 1.0, "top": 3},
            "top = 3 is not allowed: the method does not have it: its arguments are",
        ),
    ],
)
def test_a_wrong_argument_is_named(tmp_path, given, sentence):
    method = read_method(
        write_method(tmp_path / "m", "def generate(model, strength: float, **kw): pass")
    )
    with pytest.raises(ParameterError) as raised:
        check_arguments(method.arguments, given)
    assert str(raised.value).startswith(sentence)


ENTRY = "custom_generate/generate.py"
BY_NAME = "generate must take the model by that name, as in def generate(model"
SAME_FOLDER = "only files of the same folder can be imported, as in from .helper import name."
BROKEN = [
    (
        "def other(model): pass",
        {},
        "custom_generate/generate.py has no function generate(model, ...).",
    ),
    ("x = 1\ndef generate(): pass", {}, f"{ENTRY}, line 2: {BY_NAME}"),
    ("def generate(self, input_ids): pass", {}, f"{ENTRY}, line 1: {BY_NAME}"),
    ("def generate(model, /, input_ids): pass", {}, f"{ENTRY}, line 1: {BY_NAME}"),
    ("def generate(*args): pass", {}, f"{ENTRY}, line 1: {BY_NAME}"),
    ("from ..beside import x\ndef generate(model): pass", {}, f"{ENTRY}, line 1: {SAME_FOLDER}"),
    ("from .. import x\ndef generate(model): pass", {}, f"{ENTRY}, line 1: {SAME_FOLDER}"),
    ("def generate(model)\n    pass", {}, "custom_generate/generate.py, line 1: expected ':'."),
    (
        "import nowhere_found\ndef generate(model): pass",
        {},
        "custom_generate/generate.py, line 1: there is no package nowhere_found here.",
    ),
    (
        "from .beside import x\ndef generate(model): pass",
        {},
        "custom_generate/generate.py, line 1: there is no beside.py",
    ),
    (
        "def generate(model): pass",
        {"beside": "def broken(:"},
        "custom_generate/beside.py, line 1: ",
    ),
    (
        "def generate(model): pass",
        {"requirements": "notexisting_pkg>=1.0\ntransformers>99\n"},
        "The method needs notexisting_pkg>=1.0 (installed: none), transformers>99 (installed: 5.",
    ),
    (
        "def generate(model): pass",
        {"requirements": "???"},
        "custom_generate/requirements.txt, line 1: '???' is no",
    ),
    ("#" * (MAX_BYTES + 1), {}, "m is too large: a method may have 64 files and 1,000 kB"),
]


@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        ("*, model, tau=1.0", ["tau"]),
        ("input_ids, model, tau=1.0", ["tau"]),
        ("**kwargs", []),
        ("*args, **kwargs", []),
    ],
)
def test_the_model_may_be_taken_by_name_anywhere(tmp_path, arguments, own):
    found = read_method(write_method(tmp_path / "m", f"def generate({arguments}): pass"))
    assert [argument.name for argument in found.arguments] == own


@pytest.mark.parametrize(("source", "more", "sentence"), BROKEN)
def test_a_broken_method_is_one_sentence_with_its_place(tmp_path, source, more, sentence):
    with pytest.raises(MethodError) as raised:
        read_method(write_method(tmp_path / "m", source, **more))
    assert str(raised.value).startswith(sentence)


def test_links_out_of_the_folder_and_folders_without_a_method_are_refused(tmp_path):
    folder = write_method(tmp_path / "m", PLAIN)
    (folder / "custom_generate" / "secret.py").symlink_to("/etc/passwd")
    with pytest.raises(MethodError, match=r"secret\.py is a link"):
        read_method(folder)
    with pytest.raises(MethodError, match=r"it has no custom_generate/generate\.py"):
        read_method(tmp_path)
    with pytest.raises(MethodError, match="there is no such folder"):
        read_method(tmp_path / "none")


def test_the_hash_is_of_the_code_and_of_nothing_else(tmp_path):
    one = read_method(write_method(tmp_path / "one", PLAIN, readme="a"))
    two = read_method(write_method(tmp_path / "two", PLAIN, readme="b"))
    other = read_method(write_method(tmp_path / "three", PLAIN + "\n"))
    assert one.sha256 == two.sha256 != other.sha256


ROLLBACK = """
import torch

def generate(model, input_ids, generation_config=None, streamer=None, **kwargs):
    cache, ids, back = None, input_ids, False
    while ids.shape[1] < input_ids.shape[1] + generation_config.max_new_tokens:
        held = 0 if cache is None else cache.get_seq_length()
        out = model(input_ids=ids[:, held:], past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = out.past_key_values
        scores = out.logits[:, -1]
        token = scores.topk(2).indices[:, 1:] if back else scores.argmax(-1, keepdim=True)
        ids = torch.cat([ids, token], -1)
        streamer.put(token)
        back = False
        if ids.shape[1] == input_ids.shape[1] + 5 and "turned" not in globals():
            globals()["turned"] = back = True
            ids = ids[:, :-3]
            cache.crop(ids.shape[1] - 1 - cache.get_seq_length())
    return ids
"""


@pytest.mark.nightly
def test_what_a_method_takes_back_is_seen(tmp_path, process):
    """Five tokens, three of them taken back, and others in their place."""
    steps, outcome = run_method(
        write_method(tmp_path / "m", ROLLBACK), job([PROMPT], new=6), process
    )
    assert [(s.keep, len(s.emit)) for s in steps] == [
        (0, 1), (1, 1), (2, 1), (3, 1), (2, 1), (3, 1), (4, 1), (5, 1)
    ]  # fmt: skip
    assert tuple(replay_ids(tuple(steps))) == outcome.sequences[0]
    passes = [p for s in steps for p in s.detail.passes]
    assert len(passes) == outcome.passes == 9
    assert [p.dropped for p in passes] == [0, 0, 0, 0, 0, 2, 0, 0, 0]
    assert [p.read for p in passes] == [4, *[1] * 8]
    assert sum(s.detail.declared for s in steps) == 9


@pytest.mark.nightly
def test_the_text_is_that_of_the_row_that_a_method_continues_with(tmp_path, process):
    """Two branches in one batch, of which the second is taken; then a look aside before the last token."""
    source = """
import torch
from transformers import DynamicCache

def generate(model, input_ids, generation_config=None, **kwargs):
    cache = DynamicCache()
    best = model(input_ids=input_ids, past_key_values=cache).logits[0, -1].topk(2).indices
    cache.batch_repeat_interleave(2)
    ahead = model(input_ids=best[:, None], past_key_values=cache).logits[:, -1]
    cache.batch_select_indices(torch.tensor([1]))
    following = ahead[1:].argmax(-1)
    last = model(input_ids=following[None], past_key_values=cache).logits[:, -1]
    model(input_ids=input_ids[:, 1:])
    return torch.cat([input_ids, best[None, 1:], following[None], last.argmax(-1)[None]], -1)
"""
    steps, outcome = run_method(write_method(tmp_path / "m", source), job([PROMPT]), process)
    [new] = outcome.sequences
    first = steps[0].emit[0]
    assert [(s.keep, s.emit) for s in steps] == [(0, (first,)), (0, new[:2]), (2, new[2:])]
    assert first != new[0] == steps[0].candidates[1].token_id
    # A record is of one decision, and no pass of what was taken shows that of its first token.
    assert [len(s.candidates) for s in steps] == [3, 0, 3]
    assert steps[2].candidates[0].token_id == new[2]


def test_candidates_are_those_of_the_model(tmp_path, process):
    steps, outcome = run_method(write_method(tmp_path / "m", PLAIN), job([PROMPT]), process)
    loaded = load("storyteller")
    with torch.no_grad():
        ids = torch.tensor([[*PROMPT, *outcome.sequences[0]]])
        logprobs = loaded.model(input_ids=ids).logits[0].log_softmax(-1)
    for place, step in enumerate(steps):
        top = logprobs[len(PROMPT) - 1 + place].topk(3)
        assert [c.token_id for c in step.candidates] == top.indices.tolist()
        assert [c.raw_logprob for c in step.candidates] == pytest.approx(
            top.values.tolist(), abs=1e-4
        )
        assert isinstance(step.detail, ForwardDetail)


def test_processors_that_a_method_applies_show_their_stages(tmp_path, process):
    source = """
import torch
from transformers import LogitsProcessorList, MinPLogitsWarper, TemperatureLogitsWarper

def generate(model, input_ids, generation_config=None, **kwargs):
    wanted = LogitsProcessorList([TemperatureLogitsWarper(2.0), MinPLogitsWarper(0.3)])
    ids = input_ids
    for _ in range(generation_config.max_new_tokens):
        scores = wanted(ids, model(input_ids=ids).logits[:, -1].float())
        ids = torch.cat([ids, torch.multinomial(scores.softmax(-1), 1)], -1)
    return ids
"""
    steps, _ = run_method(write_method(tmp_path / "m", source), job([PROMPT], new=3), process)
    assert [[stage.name for stage in step.stages] for step in steps] == [
        ["Temperature", "MinP"]
    ] * 3
    assert all(step.stages[1].kept < step.stages[0].kept for step in steps)


def test_what_a_method_reads_next_to_its_text_is_no_part_of_it(tmp_path, process):
    """It compares with what the model says without the beginning, and writes into the logits it was given."""
    source = """
import torch

def generate(model, input_ids, generation_config=None, **kwargs):
    ids = input_ids
    for _ in range(generation_config.max_new_tokens):
        whole = model(input_ids=ids).logits
        token = whole[:, -1].argmax(-1, keepdim=True)
        model(input_ids=ids[:, 2:])
        whole.zero_()
        ids = torch.cat([ids, token], -1)
    return ids
"""
    steps, outcome = run_method(write_method(tmp_path / "m", source), job([PROMPT], new=3), process)
    assert tuple(replay_ids(tuple(steps))) == outcome.sequences[0]
    assert [(s.keep, len(s.emit), s.forward_passes) for s in steps] == [
        (0, 1, 2),
        (1, 1, 2),
        (2, 1, 2),
    ]
    passes = [[(p.read, p.length, p.dropped, p.aside) for p in s.detail.passes] for s in steps]
    assert passes == [[(n, n, 0, False), (n - 2, n, 0, True)] for n in (4, 5, 6)]


def test_ids_without_the_model_are_noted_and_no_step_is_made_up(tmp_path, process):
    source = """
import torch

def generate(model, input_ids, **kwargs):
    return torch.cat([input_ids, input_ids], -1)
"""
    steps, outcome = run_method(write_method(tmp_path / "m", source), job([PROMPT]), process)
    assert outcome.sequences == (tuple(PROMPT),)
    assert outcome.passes == 0
    assert [step.candidates for step in steps] == [()]
    assert outcome.notes == (
        "No forward pass of the model was seen: the tokens came from elsewhere.",
    )


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (None, "The method returned nothing; it must"),
        ("once", "The method returned text in place of ids ('once'); it must"),
        (["a", "b"], "The method returned text in place of ids ('a; b'); it must"),
        (
            {"scores": 1},
            "The method returned a dictionary without sequences (it has scores); it must",
        ),
        (torch.ones(2, 3), "The method returned a tensor of float32; it must"),
        ([[1, 99]], "The method returned the id 99, and the model's go from 0 to 9; it must"),
        ((i for i in "ab"), "The method returned a generator; it must"),
        (3, "The method returned a int; it must"),
    ],
)
def test_what_is_no_ids_is_named(returned, sentence):
    assert read_return_value(returned, 10)["refused"].startswith(sentence)


def test_other_shapes_of_ids_are_read():
    assert read_return_value(torch.tensor([1, 2]), 10)["sequences"] == [[1, 2]]
    assert read_return_value([[1], [2, 3]], 10)["sequences"] == [[1], [2, 3]]
    read = read_return_value({"sequences": torch.tensor([[4]]), "scores": ()}, 10)
    assert read == {
        "sequences": [[4]],
        "notes": ["The method also returned scores, which is not shown."],
    }
