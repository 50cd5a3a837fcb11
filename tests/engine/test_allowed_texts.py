"""What a grammar did to a text: what it expected, and what the model would have chosen among its texts."""

from __future__ import annotations

import json
import re

import pytest
import torch

from engine import DecodeRequest, load
from engine.analysis.allowed_texts import list_allowed_texts
from engine.cli.main import main
from engine.errors import EngineError
from engine.grammar.microscope import find_refusal
from engine.grammar.processor import read_token_bytes
from engine.inspection.rerun import replay_to_step
from engine.inspection.why import explain_token
from engine.models.structured_outputs import compile_structured_outputs
from engine.trace import json_io
from tests.helpers.environment import ROOT
from tests.helpers.grammars import BALL, CHOICE, PROMPT, TOY, ask
from tests.helpers.runs import finished


@pytest.mark.parametrize(
    ("spec", "written", "token", "fits", "expected"),
    [
        (BALL, " big ball", " and", "", "“.”"),
        (BALL, " big", " black", " b", "“a”"),
        ({"json": TOY}, '{"toy":', " ", "", '“"'),
        ({"choice": ["Yes", "No"]}, "", "Not", "No", "the end"),
        ({"regex": "[0-9]+[a-z]?"}, "4", "A", "", "a digit, a small letter or the end"),
        ({"regex": r"a\t| "}, "", "é", "", "a space or “a”"),
    ],
)
def test_a_refusal_says_what_fits_and_what_was_expected(spec, written, token, fits, expected):
    found = find_refusal(compile_structured_outputs(spec), written.encode(), token.encode())
    assert found.fits == fits
    assert expected in found.expected


def test_why_not_names_the_grammar_and_what_it_expected():
    trace = finished(ask("greedy", CHOICE))
    [wanted] = [one for one in trace.steps[1].candidates if one.rank == 0]
    assert wanted.removed_by == "Grammar"
    answer = explain_token(replay_to_step(trace, 1), wanted.token_id)
    assert "structured_outputs allows goes on with" in answer.sentence
    assert "it expects" in answer.sentence


def test_both_probabilities_of_every_allowed_text_are_those_of_an_enumeration():
    """Feelings as one token or in pieces: every way to write them, read by plain forward passes."""
    prompt, feelings = "Lily lost her toy. She was very", [" sad.", " happy.", " tired."]
    params = {"structured_outputs": {"choice": feelings}, "max_new_tokens": 16}
    found = list_allowed_texts(DecodeRequest("greedy", prompt=prompt, params=params))
    loaded = load("storyteller")
    written = read_token_bytes(loaded.tokenizer, loaded.vocab_size)
    [end] = loaded.eos_token_ids
    start = loaded.tokenizer(prompt)["input_ids"]
    texts = [text.encode() for text in feelings]
    own, masked = dict.fromkeys(texts, 0.0), dict.fromkeys(texts, 0.0)

    def follow(ids, so_far, p_own, p_masked):
        with torch.no_grad():
            logits = loaded.model(torch.tensor([[*start, *ids]])).logits[0, -1].double()
        p = logits.softmax(-1)
        more = {
            i: w
            for i, w in enumerate(written)
            if w and any(t.startswith(so_far + w) for t in texts)
        }
        kept = sum(float(p[i]) for i in more) + (float(p[end]) if so_far in texts else 0.0)
        if so_far in texts:
            own[so_far] += p_own * float(p[end])
            masked[so_far] += p_masked * float(p[end]) / kept
        for i, w in more.items():
            follow([*ids, i], so_far + w, p_own * float(p[i]), p_masked * float(p[i]) / kept)

    follow([], b"", 1.0, 1.0)
    valid = sum(own.values())
    assert found.valid == pytest.approx(valid, rel=1e-4)
    assert {one.text for one in found.texts} == set(feelings)
    for one in found.texts:
        assert one.own == pytest.approx(own[one.text.encode()] / valid, abs=1e-5)
        assert one.masked == pytest.approx(masked[one.text.encode()], abs=1e-4)
    assert (
        found.greedy
        == finished(DecodeRequest("greedy", prompt=prompt, params=params)).outputs[0].text
    )
    assert found.missed < 1e-3


def _rows_of_the_docs():
    """Return the cells of the table of four grammars, without the marks of code."""
    page = (ROOT / "docs/structured_output.md").read_text("utf-8")
    table = page[page.index("| prompt | `structured_outputs`") :].split("\n\n")[0].splitlines()[2:]
    cells = [re.split(r"(?<!\\)\|", row)[1:-1] for row in table]
    # Code in cells keeps its outer spaces, which belong to the texts.
    return [[c.replace("\\|", "|")[2:-2] if "`" in c else c.strip() for c in row] for row in cells]


@pytest.mark.parametrize(
    "row", [0, 1, pytest.param(2, marks=pytest.mark.nightly, id="198 texts"), 3]
)
def test_the_four_grammars_of_the_docs_give_the_figures_told_there(row):
    told = _rows_of_the_docs()
    assert len(told) == 4
    prompt, spec, *figures = told[row]
    params = {"structured_outputs": json.loads(spec), "max_new_tokens": 24}
    found = list_allowed_texts(DecodeRequest("greedy", prompt=prompt, params=params))
    by_text = {one.text: one for one in found.texts}
    shown = [str(len(by_text)), f"{found.valid:.2g}", f"{found.divergence:.2g}"]
    for one in (by_text[found.greedy], found.texts[0]):
        shown += [one.text, f"{one.own:.2g}", f"{one.masked:.2g}"]
    assert shown == figures


def test_more_texts_than_can_be_listed_are_refused():
    request = ask("greedy", {"regex": "[a-z]{5}"})
    with pytest.raises(EngineError, match="more than 200 texts"):
        list_allowed_texts(request)
    with pytest.raises(EngineError, match="needs a grammar"):
        list_allowed_texts(DecodeRequest("greedy", prompt=PROMPT))


def test_the_command_shows_every_text(tmp_path, capsys):
    file = tmp_path / "run.json"
    json_io.save(finished(ask("greedy", CHOICE)), file)
    assert main(["grammar", str(file)]) == 0
    shown = capsys.readouterr().out
    assert all(repr(text) in shown for text in CHOICE["choice"])
    assert main(["grammar", str(file), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert sum(one["own"] for one in table["texts"]) == pytest.approx(1)
