"""The repeats that DRY penalized in a step, computed from the record of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.processors import FILTERS

DRY = FILTERS["DRY"]


def repeat_penalties(
    config: Mapping[str, Any], text: Sequence[int]
) -> dict[int, tuple[int, float]]:
    """Return token id -> length of the repeat that it would continue, and DRY's penalty in nats.

    Args:
        config: settings of a run, as its record has them.
        text: ids of prompt and output so far.
    """
    assert DRY.build is not None
    made = DRY.build(config[DRY.parameter], *(config[name] for name in DRY.settings))
    found: Mapping[int, int] = made.find_repeats(list(text))
    return {
        token: (length, made.multiplier * made.growth(length)) for token, length in found.items()
    }
