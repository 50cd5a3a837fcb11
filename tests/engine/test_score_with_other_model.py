"""Another model beside a run: every figure equal to plain forward passes of both."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import threading

import pytest
import torch

from engine import DecodeRequest, load
from engine.analysis.score_with_other_model import compare_models
from engine.cli.main import main
from engine.errors import Cancelled, ModelError
from engine.trace import json_io
from tests.helpers.models import native
from tests.helpers.runs import finished

NEAR = 1e-5


def plain(loaded, prompt, new):
    """Return the log-probabilities of a plain forward pass, one row for each new token.

    The last token is not read: at 8 bits one more row can change what the others come to.
    """
    with torch.inference_mode():
        logits = loaded.model(torch.tensor([[*prompt, *new[:-1]]])).logits[0].double()
    return torch.log_softmax(logits, -1)[len(prompt) - 1 :]


@pytest.fixture(scope="module")
def written():
    return finished(
        DecodeRequest("sampling", prompt="Once upon a time", params={"max_new_tokens": 24}, seed=3)
    )


@pytest.mark.nightly
@pytest.mark.parametrize("held", ["bfloat16", "float16", "8bit", "4bit"])
def test_every_figure_is_that_of_plain_passes(written, held):
    own = load("storyteller")
    dtype = held if "float" in held else None
    other = load("storyteller", dtype=dtype, quantization=None if dtype else held)
    found = compare_models(written, own, other)
    prompt, new = list(written.prompt_ids), list(written.outputs[0].token_ids)
    ours, theirs = (plain(loaded, prompt, new) for loaded in (own, other))
    kl = (ours.exp() * (ours - theirs)).sum(-1)
    assert found.token_ids == tuple(new)
    assert found.kl == pytest.approx(kl.tolist(), abs=NEAR)
    assert found.mean_kl == pytest.approx(kl.mean().item(), abs=NEAR)
    assert found.mean_kl > 1e-7
    ids = torch.tensor(new)[:, None]
    for side, rows in ((found.own, ours), (found.other, theirs)):
        logprobs = rows.gather(-1, ids)
        assert side.logprobs == pytest.approx(logprobs[:, 0].tolist(), abs=NEAR)
        assert side.perplexity == pytest.approx(math.exp(-logprobs.mean().item()), rel=NEAR)
        assert list(side.ranks) == (1 + (rows > logprobs).sum(-1)).tolist()
        assert list(side.tops) == rows.argmax(-1).tolist()
    same = (ours.argmax(-1) == theirs.argmax(-1)).double().mean().item()
    assert found.agreement == pytest.approx(same, abs=NEAR)
    assert (found.own.bytes, found.other.bytes) == (own.memory_bytes(), other.memory_bytes())
    assert found.other.bytes < found.own.bytes


@pytest.mark.nightly
def test_the_greedy_texts_are_those_of_generate_and_part_where_they_do(written):
    own, other = load("storyteller"), load("storyteller", quantization="4bit")
    found = compare_models(written, own, other)
    ids = list(written.prompt_ids)
    count = len(found.token_ids)
    texts = [native(loaded, ids, max_new_tokens=count)[0] for loaded in (own, other)]
    assert [list(found.own.greedy), list(found.other.greedy)] == texts
    differ = [i for i, (a, b) in enumerate(zip(*texts, strict=False)) if a != b]
    assert found.parted == (differ[0] if differ else None)
    assert found.own.tokens_per_s > 0 < found.other.tokens_per_s


def test_a_model_compared_with_itself_has_no_divergence(written):
    own = load("storyteller")
    found = compare_models(written, own, own)
    assert set(found.kl) == {0.0}
    assert (found.agreement, found.parted) == (1.0, None)
    assert found.own.ranks == found.other.ranks
    assert found.to_dict()["largest_kl"] == 0.0


def test_a_target_can_be_compared_with_its_draft_but_not_with_a_foreign_model(written):
    own = load("storyteller")
    found = compare_models(written, own, load("storyteller-draft"))
    assert found.mean_kl > 0.01
    assert found.other.bytes < found.own.bytes
    with pytest.raises(ModelError, match="foreign-draft has another tokenizer than storyteller"):
        compare_models(written, own, load("foreign-draft"))


def test_an_empty_text_and_one_too_long_are_said(written):
    own = load("storyteller")
    empty = dataclasses.replace(written.outputs[0], token_ids=())
    with pytest.raises(ModelError, match="wrote nothing"):
        compare_models(dataclasses.replace(written, outputs=(empty,)), own, own)
    long = dataclasses.replace(written, prompt_ids=written.prompt_ids * 300)
    with pytest.raises(ModelError, match=r"context of \d+ tokens"):
        compare_models(long, own, own)


def test_a_visitor_who_stops_waits_no_longer(written):
    stopped = threading.Event()
    stopped.set()
    own = load("storyteller")
    with pytest.raises(Cancelled):
        compare_models(written, own, own, stopped)
    # The next one works.
    assert compare_models(written, own, own).agreement == 1.0


def test_the_command_line_prints_and_writes_the_same_figures(written, tmp_path, capsys):
    run, table = tmp_path / "run.json", tmp_path / "tokens.csv"
    json_io.save(written, run)
    asked = ["compare-models", str(run), "--dtype", "bfloat16", "--csv", str(table)]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = compare_models(written, load("storyteller"), load("storyteller", dtype="bfloat16"))
    assert (told["kl"], told["agreement"]) == (list(found.kl), found.agreement)
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    assert [int(row["token_id"]) for row in rows] == list(found.token_ids)
    assert [int(row["rank_beside"]) for row in rows] == list(found.other.ranks)
    assert [float(row["kl_nats"]) for row in rows] == list(found.kl)
    assert main(asked) == 0
    assert f"mean KL {found.mean_kl:.6f} nats" in capsys.readouterr().out
