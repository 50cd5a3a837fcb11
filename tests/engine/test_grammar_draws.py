"""Draws estimate what a large grammar does; on small ones the estimate is judged by the list of all texts."""

from __future__ import annotations

import json
import math
import random
from functools import cache

import pytest

from engine import DecodeRequest
from engine.analysis import grammar_comparison
from engine.analysis.allowed_texts import list_allowed_texts
from engine.analysis.grammar_draws import (
    MIN_EFFECTIVE,
    estimate_allowed_texts,
    weigh_draws,
)
from engine.cli.main import main
from engine.errors import EngineError
from engine.trace import json_io
from tests.helpers.runs import finished

FEELINGS = [" sad.", " sad and scared.", " happy.", " tired.", " sad and she cried."]
PROMPT = "Lily lost her toy. She was very"


def ask_feelings(seed: int = 0, **params: object) -> DecodeRequest:
    """Return a request of a grammar whose draws have very different weights."""
    values = {"structured_outputs": {"choice": FEELINGS}, "max_new_tokens": 16, **params}
    return DecodeRequest("greedy", prompt=PROMPT, params=values, seed=seed)


@cache
def list_feelings():
    """Return the list of all texts: it is exact."""
    return list_allowed_texts(ask_feelings())


@pytest.mark.nightly
def test_the_interval_has_the_true_probability_for_nearly_all_seeds():
    exact = list_feelings()
    found = [estimate_allowed_texts(ask_feelings(seed), 200) for seed in range(10)]
    assert sum(one.low <= exact.valid <= one.high for one in found) >= 8
    # Intervals that hold everything would say nothing.
    assert all(one.high / one.low < 2 for one in found)
    assert len({one.valid for one in found}) > 5


def test_the_shares_of_texts_are_those_of_the_list():
    exact, found = list_feelings(), estimate_allowed_texts(ask_feelings(), 1000)
    assert found.draws == found.complete == 1000
    shares = {one.text: one for one in found.texts}
    for one in exact.texts:
        drawn = shares[one.text]
        assert drawn.own == pytest.approx(one.own, abs=0.05)
        assert drawn.masked == pytest.approx(one.masked, abs=0.05)
    assert sum(one.own for one in found.texts) == pytest.approx(1)
    assert found == estimate_allowed_texts(ask_feelings(), 1000)


def test_a_draw_without_an_end_counts_as_a_text_that_is_not_allowed():
    """Three tokens are enough for “ sad.” only."""
    whole, short = (estimate_allowed_texts(ask_feelings(max_new_tokens=n), 200) for n in (16, 3))
    assert short.complete < short.draws == whole.complete
    assert short.valid < whole.high
    assert {one.text for one in short.texts} < {one.text for one in whole.texts}


def test_the_interval_of_drawn_weights_covers_the_mean_of_their_distribution():
    """Log-normal weights with the mean 1, times 1e-400: no float holds them."""
    inside, small, rng = 0, -400 * math.log(10), random.Random(0)
    for _ in range(200):
        weights = [rng.gauss(-0.5, 1.0) for _ in range(500)]
        # The estimate itself would underflow, so both are moved together.
        near = weigh_draws([("a", one) for one in weights], 500)
        inside += near.low <= 1 <= near.high
        far = weigh_draws([("a", one + small) for one in weights], 500)
        assert far.effective == pytest.approx(near.effective)
    assert inside >= 180


def test_few_draws_that_count_say_nothing():
    one_decides = [("a", 0.0)] + [("b", -20.0)] * 999
    with pytest.raises(EngineError, match="The 1000 draws count like 1 equal ones, too few"):
        weigh_draws(one_decides, 1000)
    with pytest.raises(EngineError, match="count like 0 equal ones"):
        weigh_draws([], 1000)
    equal = [("a", -5.0)] * MIN_EFFECTIVE
    assert weigh_draws(equal, 1000).valid == pytest.approx(MIN_EFFECTIVE / 1000 * math.exp(-5))
    with pytest.raises(EngineError, match="at least 20 are needed"):
        weigh_draws(equal[1:], 1000)


@pytest.mark.parametrize("draws", [True, 99, 4001])
def test_a_wrong_number_of_draws_is_refused(draws):
    with pytest.raises(EngineError, match="from 100 to 4000"):
        estimate_allowed_texts(ask_feelings(), draws)


def test_the_command_draws_where_the_list_would_be_too_long(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(grammar_comparison, "DRAWS", 150)
    file, small = tmp_path / "run.json", tmp_path / "small.json"
    params = {"structured_outputs": {"regex": " [a-z]+\\."}, "max_new_tokens": 16}
    json_io.save(finished(DecodeRequest("greedy", prompt=PROMPT, params=params)), file)
    assert main(["grammar", str(file), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["draws"] == 150
    assert first["low"] < first["valid"] < first["high"]
    assert main(["grammar", str(file), "--seed", "7", "--draws", "101"]) == 0
    shown = capsys.readouterr().out
    assert "Estimated from 101 draws" in shown
    assert "95 % interval" in shown
    json_io.save(finished(ask_feelings()), small)
    assert main(["grammar", str(small), "--draws", "102", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["draws"] == 102
