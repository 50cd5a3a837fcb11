"""Random values for every parameter of a strategy, read off its declaration."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from engine.declare import params as kinds
from engine.declare.params import Param, params_of
from engine.declare.structured_outputs import StructuredOutputs
from engine.declare.tokens import Token, Tokens
from engine.strategies import STRATEGIES
from engine.strategies.custom import MethodArguments, MethodName
from engine.strategies.dola import LayerChoice
from engine.strategies.watermark import SynthIdKeys

SMALL = 8
"""Most tokens, beams, n-grams and the like: more of them only take longer."""
MOST_CHANGED = 4
CLOCK = ("max_time",)
"""What makes a run depend on how fast the machine is."""
CHECKS = ("plain_run", "distribution_runs")
"""What only measures after a run."""


def params_for(name: str, vocab: int) -> st.SearchStrategy[dict[str, Any]]:
    """Return random parameters of a strategy: a few of them, each in its range.

    Args:
        name: of STRATEGIES.
        vocab: token ids are below it.
    """
    own = params_of(STRATEGIES[name].config)
    open_ones = [n for n in own if n not in (*CLOCK, *CHECKS, "max_new_tokens")]

    def filled(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
        values = {n: value_of(n, own[n], vocab) for n in names}
        return st.fixed_dictionaries({"max_new_tokens": st.integers(1, SMALL), **values})

    chosen = st.lists(st.sampled_from(open_ones), max_size=MOST_CHANGED, unique=True)
    return chosen.flatmap(filled)


def value_of(name: str, kind: Param, vocab: int) -> st.SearchStrategy[Any]:
    """Return random values of one parameter."""
    value = _MAKERS[type(kind)](kind, vocab)
    if name == "draft_tree_widths":
        value = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(_joined)
    if name == "prefix_allowed_tokens_fn":
        value = value | st.lists(_ids(vocab), min_size=1, max_size=4).map(_always)
    return value | st.none() if kind.optional else value


def _joined(widths: list[int]) -> str:
    return ", ".join(map(str, widths))


def _always(ids: list[int]) -> Any:
    return lambda batch_id, so_far: ids


def _ids(vocab: int) -> st.SearchStrategy[int]:
    return st.integers(0, vocab - 1)


def _sequence(vocab: int) -> st.SearchStrategy[Any]:
    return st.lists(_ids(vocab), min_size=1, max_size=3) | _texts()


def _texts() -> st.SearchStrategy[str]:
    return st.sampled_from([" the", "bear", " saw a", ".", "e", "日"])


def _number(kind: Any, vocab: int) -> st.SearchStrategy[float]:
    del vocab
    low, high = kind.minimum, min(kind.maximum, kind.slider_maximum or math.inf)
    return st.floats(low, high, exclude_min=kind.above_minimum, exclude_max=kind.below_maximum)


def _integer(kind: Any, vocab: int) -> st.SearchStrategy[int]:
    most = min(kind.maximum, kind.minimum + SMALL)
    return st.integers(kind.minimum, min(most, vocab - 1))


_MAKERS: dict[type, Any] = {
    kinds.Number: _number,
    kinds.Integer: _integer,
    kinds.Flag: lambda kind, vocab: st.booleans(),
    kinds.Choice: lambda kind, vocab: st.sampled_from(kind.choices),
    kinds.Text: lambda kind, vocab: _texts(),
    kinds.Strings: lambda kind, vocab: st.lists(_texts(), min_size=1, max_size=2),
    kinds.TokenIds: lambda kind, vocab: st.lists(_ids(vocab), min_size=1, max_size=5),
    Token: lambda kind, vocab: _ids(vocab),
    Tokens: lambda kind, vocab: st.lists(_ids(vocab), min_size=1, max_size=5),
    kinds.TokenLists: lambda kind, vocab: st.lists(_sequence(vocab), min_size=1, max_size=3),
    kinds.Biases: lambda kind, vocab: st.lists(
        st.tuples(_sequence(vocab), st.floats(-10, 10)), min_size=1, max_size=3
    ),
    kinds.Decay: lambda kind, vocab: st.tuples(st.integers(0, SMALL), st.floats(0.5, 3)),
    kinds.AllowedTokens: lambda kind, vocab: st.lists(_sequence(vocab), min_size=1, max_size=3),
    StructuredOutputs: lambda kind, vocab: st.sampled_from(
        [{"regex": "[a-z ]{1,6}"}, {"choice": [" the", " saw"]}, {"json": {"type": "integer"}}]
    ),
    SynthIdKeys: lambda kind, vocab: st.lists(
        st.integers(0, 1000), min_size=1, max_size=4, unique=True
    ),
    MethodName: lambda kind, vocab: st.sampled_from(["mirostat", "top_n_sigma", "nope"]),
    MethodArguments: lambda kind, vocab: st.sampled_from([{}, {"eta": 0.2}, {"n": 0.5}]),
    LayerChoice: lambda kind, vocab: st.sampled_from(["low", "high", [1], [1, 3]]),
}
