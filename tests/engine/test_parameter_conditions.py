"""A parameter that is put off changes nothing, and only then is it put off."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import DecodeRequest, decode
from engine.declare.params import params_of
from engine.strategies import STRATEGIES
from engine.strategies.parameter_conditions import conditional_parameters
from engine.trace.events import Failed
from tests.helpers.random_params import value_of
from tests.helpers.strategies import NEXT_TOKEN
from tests.helpers.talkers import PROMPT, assistant, target

NEW = 5
DEPENDENT = {name: conditional_parameters(s) for name, s in STRATEGIES.items()}


def tokens(name, params, seed=0):
    request = DecodeRequest(
        name, target(), PROMPT, params=params, seed=seed, assistant=assistant(name)
    )
    *_, last = decode(request)
    assert not isinstance(last, Failed), str(last.error)
    return [output.token_ids for output in last.trace.outputs]


def off(name):
    """Return the settings under which a strategy's dependent parameters do not act, by parameter."""
    found = {}
    for param, only in DEPENDENT[name].items():
        others = [v for v in ("greenlist", "synthid", True, False) if v not in only.values]
        kind = params_of(STRATEGIES[name].config).get(only.name)
        legal = [v for v in others if kind is not None and isinstance(v, type(only.values[0]))]
        found[param] = {only.name: legal[0]} if legal else {}
    return found


# This makes many runs.
@pytest.mark.by_day("watermark")
@pytest.mark.parametrize("name", [n for n in NEXT_TOKEN if DEPENDENT[n]])
def test_what_is_put_off_changes_nothing(name):
    without = off(name)
    kinds = params_of(STRATEGIES[name].config)
    sets = {str(set_): set_ for set_ in without.values()}
    plain = {key: tokens(name, {"max_new_tokens": NEW, **set_}) for key, set_ in sets.items()}

    @settings(
        max_examples=4,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.data())
    def holds(data):
        param = data.draw(st.sampled_from(sorted(without)))
        set_ = without[param]
        if param == "seed":
            seed = data.draw(st.integers(1, 50))
            assert tokens(name, {"max_new_tokens": NEW, **set_}, seed) == plain[str(set_)]
        elif param != "distribution_runs":
            value = data.draw(value_of(param, kinds[param], target().vocab_size))
            changed = {"max_new_tokens": NEW, **set_, param: value}
            assert tokens(name, changed) == plain[str(set_)], (param, value)

    holds()


def test_what_acts_is_not_put_off():
    for name, params in {
        "sampling": {},
        "watermark": {"scheme": "synthid"},
        "speculative": {"do_sample": True},
        "dola": {"do_sample": True, "temperature": 50.0},
    }.items():
        only = DEPENDENT[name].get("seed")
        assert only is None or params.get(only.name, True) in only.values
        texts = {str(tokens(name, {"max_new_tokens": NEW, **params}, seed)) for seed in range(6)}
        assert len(texts) > 1, name
    assert DEPENDENT["greedy"]["seed"].values == ()
    assert "temperature" not in DEPENDENT["sampling"]
    assert set(DEPENDENT["beam_search"]) == {"seed"}
