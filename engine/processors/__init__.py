"""The filters, one per file: parameter, explanation, tolerance and glossary entry. No torch.

A line here is all that a new filter needs besides its file; see "Add a filter" in CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from engine.processors.filter import Filter


def _load_filters(modules: Iterable[str]) -> tuple[Filter, ...]:
    return tuple(import_module(f"{__name__}.{module}").FILTER for module in modules)


# The order of the controls only. In a run the filters of generate() have its order, and ours come
# before its samplers, as every processor that a caller passes; see ``Filter.last`` for the others.
SAMPLING = _load_filters(
    (
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "top_n_sigma",
        "top_h",
        "typical_p",
        "epsilon_cutoff",
        "eta_cutoff",
        "xtc",
        "mirostat",
        "adaptive_p",
    )
)
"""Filters that act only when tokens are sampled, in the order of their controls."""
PENALTIES = _load_filters(
    (
        "repetition_penalty",
        "dry",
        "no_repeat_ngram",
        "encoder_repetition_penalty",
        "encoder_no_repeat_ngram",
        "bad_words",
        "sequence_bias",
        "suppress_tokens",
        "begin_suppress_tokens",
        "forced_first_token",
        "forced_last_token",
        "guidance",
        "allowed_continuations",
        "grammar",
        "thinking_budget",
        "invalid_values",
        "renormalize",
    )
)
"""Filters that every kind of search can use, in the order of their controls."""
LENGTH = _load_filters(("min_new_tokens", "min_length", "length_decay"))
"""Filters of the token that ends the text."""
FILTERS = {one.name: one for one in (*SAMPLING, *PENALTIES, *LENGTH)}
"""Name in records -> filter."""


def filter_titles() -> dict[str, str]:
    """Return name in records -> title, as JSON values for the page."""
    return {one.name: one.title for one in FILTERS.values()}
