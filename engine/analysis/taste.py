"""Continuations of a prompt by several strategies, for a blind comparison by the reader."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from engine.analysis import gallery
from engine.models.loading import LoadedModel
from engine.run.scheduler import EventCallback, ignore_event
from engine.statistics.metrics import repetition_rate
from engine.trace.records import Trace
from engine.trace.value_types import JsonObject, JsonValue

TOKENS = 60
TASTE_STRATEGIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("greedy", {}),
    ("beam_search", {"num_beams": 5}),
    ("sampling", {"temperature": 0.7, "top_k": 0, "top_p": 0.9}),
    ("contrastive_search", {"penalty_alpha": 0.6, "top_k": 4}),
)
"""Compared strategies with the parameters that differ from their defaults."""
PROMPTS = (
    "Once upon a time, in a small house by the sea, there lived",
    "Tom and his mom were in the kitchen. Tom wanted to",
    "One day, a little boy found a",
    "The dragon opened the door and",
    "It was raining, so Ben and Mia",
    "There was a small bird who could not",
    "The old bear lived alone in the forest. One morning",
    "Sara had a red ball. She loved it more than",
    "At the farm there was a cow who wanted to",
    "The moon was very bright that night. A cat",
    "Max was afraid of the dark. His dad",
    "In the garden, Anna saw a strange",
    "The king had a big problem:",
    "A frog jumped into the boat and said",
    "Every day after school, Jack went to",
    "The snowman did not want to melt. So he",
    "Grandma gave Lucy a box and told her",
    "A little fish swam far away from",
    "The two friends had a fight about a toy.",
    "When the train stopped, the children",
    "There was a tree that could talk. It",
    "Ella wanted to bake a cake, but",
    "A robot came to the village and",
    "The puppy was lost. He looked at",
)


@dataclass(frozen=True)
class MeasuredText:
    """A text of a strategy and its measurements.

    Attributes:
        strategy: name of the strategy.
        params: parameters that differ from its defaults.
        text: the new text, without the prompt.
        perplexity: perplexity under the scoring model; None if the text is empty.
        rep_3: share of 3-grams that repeat an earlier one, in [0, 1].
        tokens: number of tokens.
    """

    strategy: str
    params: Mapping[str, Any]
    text: str
    perplexity: float | None
    rep_3: float
    tokens: int


def measure_continuation(
    trace: Trace,
    params: Mapping[str, object],
    base: LoadedModel,
    cancelled: threading.Event | None = None,
    tell: EventCallback = ignore_event,
) -> MeasuredText:
    """Return the first output of a run with its measurements.

    Args:
        trace: a finished run.
        params: the parameters to show with it.
        base: the scoring model, which is the model of the run.
        cancelled: stops waiting for the model when set.
        tell: receives Waiting events.

    Raises:
        EngineError: see ``likelihood.score_trace``.
    """
    # Imported late: the page reads the recorded texts without torch.
    from engine.analysis.likelihood import score_trace

    output = trace.outputs[0]
    scores = score_trace(trace, base, cancelled=cancelled, tell=tell)
    return MeasuredText(
        trace.strategy,
        params,
        output.text,
        scores.perplexity,
        repetition_rate(output.token_ids, 3),
        len(output.token_ids),
    )


def record_continuations() -> dict[str, Any]:
    """Continue every prompt with every strategy and return the texts as JSON values.

    Raises:
        EngineError: a run failed.
    """
    from engine.models.loading import load

    prompts: list[JsonObject] = []
    for seed, prompt in enumerate(PROMPTS):
        texts: list[JsonValue] = []
        for strategy, params in TASTE_STRATEGIES:
            given = {**params, "max_new_tokens": TOKENS}
            trace = gallery.record_run(strategy, prompt, given, seed)
            found = measure_continuation(trace, params, load(trace.model.id))
            texts.append(asdict(found))
        prompts.append({"prompt": prompt, "texts": texts})
    return {"prompts": prompts}
