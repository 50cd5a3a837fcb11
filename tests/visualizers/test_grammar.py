"""What a grammar did to a text, token by token: as plain forward passes and an enumeration give it."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from engine import DecodeRequest, load
from engine.errors import TraceError
from engine.grammar.processor import read_token_bytes
from engine.trace import json_io
from tests.helpers.grammars import BALL, CHOICE, PROMPT, TOY, ask
from tests.helpers.runs import finished

TEXTS = [text.encode() for text in CHOICE["choice"]]


def read_along(trace):
    """Return what precedes every token of a text, and the model's probabilities there."""
    loaded = load(trace.model.id)
    written = read_token_bytes(loaded.tokenizer, loaded.vocab_size)
    so_far, ids, found = b"", list(trace.prompt_ids), []
    for token_id in trace.outputs[0].token_ids:
        with torch.no_grad():
            p = loaded.model(torch.tensor([ids])).logits[0, -1].double().softmax(-1)
        goes_on = [
            i
            for i, more in enumerate(written)
            if more and any(t.startswith(so_far + more) for t in TEXTS)
        ]
        ends = list(loaded.eos_token_ids) if so_far in TEXTS else []
        found.append((so_far, p, [*goes_on, *ends], written))
        so_far += written[token_id]
        ids.append(token_id)
    return found


@pytest.mark.parametrize(
    "strategy", ["greedy", pytest.param("sampling", marks=pytest.mark.nightly)]
)
def test_the_numbers_are_those_of_plain_forward_passes(strategy):
    trace = finished(ask(strategy, CHOICE))
    [text] = trace.grammar
    passes = read_along(trace)
    for token, (_, p, allowed, _) in zip(text.tokens, passes, strict=True):
        assert token.allowed == pytest.approx(float(p[allowed].sum()), abs=1e-5)
        best = int(p.argmax())
        assert token.wanted == (None if best in allowed else best)
        if token.wanted is not None:
            assert token.wanted_p == pytest.approx(float(p[best]), abs=1e-5)
    masses = [float(p[allowed].sum()) for _, p, allowed, _ in passes]
    assert text.log_allowed == pytest.approx(math.fsum(map(math.log, masses)), abs=1e-3)
    assert text.hardest == min(range(len(masses)), key=masses.__getitem__)
    assert text.known == len(text.tokens)


def test_it_says_what_fits_what_is_forced_and_where_the_text_may_end():
    trace = finished(ask("greedy", CHOICE))
    [text] = trace.grammar
    for token, (so_far, _, _, written), token_id in zip(
        text.tokens, read_along(trace), trace.outputs[0].token_ids, strict=True
    ):
        rest = [t[len(so_far) :] for t in TEXTS if t.startswith(so_far)]
        assert token.may_end == (b"" in rest)
        piece = written[token_id]
        assert token.forced == all(one.startswith(piece) if piece else not one for one in rest)
        if token.wanted is None:
            continue
        wanted = written[token.wanted]
        fits = max(
            n
            for n in range(len(wanted) + 1)
            if any(t.startswith(so_far + wanted[:n]) for t in TEXTS)
        )
        assert token.fits == wanted[:fits].decode()
        following = {
            t[len(so_far) + fits :][:1].decode()
            for t in TEXTS
            if t.startswith(so_far + wanted[:fits])
        }
        for character in following - {"", " "}:
            assert f"“{character}”" in token.expected
    assert any(token.fits for token in text.tokens)


def test_a_cut_that_the_tokenizer_would_not_make_is_marked():
    """Greedy under a mask writes " dog" in two tokens, the tokenizer in one."""
    trace = finished(ask("greedy", CHOICE))
    pieces = [trace.pieces[i] for i in trace.outputs[0].token_ids]
    assert pieces[:3] == [" big", " d", "og"]
    assert [token.odd_split for token in trace.grammar[0].tokens] == [
        False,
        True,
        True,
        False,
        False,
    ]


def test_what_no_step_recorded_is_not_made_up():
    """A search may leave the text whose steps it recorded, and DoLa contrasts before the grammar."""
    for strategy, spec in (("beam_search", BALL), ("dola", CHOICE)):
        [text, *_] = finished(ask(strategy, spec)).grammar
        assert text.known == 0
        assert text.hardest is None
        assert all(token.allowed is None and token.wanted is None for token in text.tokens)
        assert text.tokens[-1].may_end
    drafted = finished(ask("speculative", {"json": TOY}))
    [text] = drafted.grammar
    assert 0 < text.known < len(text.tokens)


def test_a_run_without_a_grammar_has_no_such_record():
    assert (
        finished(DecodeRequest("greedy", prompt=PROMPT, params={"max_new_tokens": 3})).grammar == ()
    )


def test_a_file_keeps_the_record_and_refuses_an_impossible_one():
    trace = finished(ask("greedy", CHOICE))
    assert json_io.loads(json_io.dumps(trace)).grammar == trace.grammar
    [text] = trace.grammar
    first = text.tokens[0]
    for broken, part in (
        (dataclasses.replace(text, tokens=text.tokens[1:]), "lists 4 tokens of 5"),
        (dataclasses.replace(text, known=1), "impossible numbers"),
        (dataclasses.replace(text, hardest=9), "impossible numbers"),
        (
            dataclasses.replace(
                text, tokens=(dataclasses.replace(first, allowed=2.0), *text.tokens[1:])
            ),
            "impossible numbers",
        ),
        (
            dataclasses.replace(
                text, tokens=(dataclasses.replace(first, wanted=99999), *text.tokens[1:])
            ),
            "no entry in pieces",
        ),
    ):
        with pytest.raises(TraceError, match=part):
            json_io.loads(json_io.dumps(dataclasses.replace(trace, grammar=(broken,))))
    with pytest.raises(TraceError, match="lists 2 texts"):
        json_io.loads(json_io.dumps(dataclasses.replace(trace, grammar=(text, text))))
