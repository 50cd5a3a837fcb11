"""The measures of a table: what each says of a run, and how it is read off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.analysis.tune.answer_checks import AnswerChecks
from engine.messages import Message
from engine.trace.records import Trace

REPEATS = "repeats"
VARIETY = "variety"
PERPLEXITY = "perplexity"
TOKENS = "tokens"
FINISHED = "finished"
SPEED = "tokens_per_s"
PASSES = "passes_per_token"
PATTERN = "pattern"
SCHEMA = "schema"
REFERENCE = "reference"
VOTES = "votes"


@dataclass(frozen=True)
class Measure:
    """One number of a run, or of the runs of one setting and prompt.

    Attributes:
        label: what the reader chooses.
        leads: what the first of the order does, after the name of the setting.
        lowest_first: whether the lowest number comes first.
        is_share: whether it is a share from 0 to 1, shown in percent.
        is_better: whether coming first is good by itself; length and perplexity are not.
        is_logarithmic: whether settings differ by factors: the mean is geometric.
        of_all_seeds: whether it is one number for all seeds together.
    """

    label: Message
    leads: Message
    lowest_first: bool = False
    is_share: bool = False
    is_better: bool = True
    is_logarithmic: bool = False
    of_all_seeds: bool = False


MEASURES: Mapping[str, Measure] = {
    REPEATS: Measure(
        Message("Fewest repeats"), Message("repeats least"), lowest_first=True, is_share=True
    ),
    VARIETY: Measure(
        Message("Most varied words"),
        Message("varies its words most"),
        is_share=True,
        of_all_seeds=True,
    ),
    PERPLEXITY: Measure(
        Message("Least surprising"),
        Message("surprises the model least"),
        lowest_first=True,
        is_better=False,
        is_logarithmic=True,
    ),
    TOKENS: Measure(Message("Longest"), Message("writes the longest texts"), is_better=False),
    FINISHED: Measure(
        Message("Finished by itself"), Message("finishes by itself most often"), is_share=True
    ),
    PASSES: Measure(
        Message("Fewest passes"), Message("needs the fewest passes for a token"), lowest_first=True
    ),
    SPEED: Measure(Message("Fastest"), Message("writes the most tokens a second")),
    PATTERN: Measure(
        Message("Fits the pattern"), Message("fits the pattern most often"), is_share=True
    ),
    SCHEMA: Measure(
        Message("Fits the schema"), Message("fits the schema most often"), is_share=True
    ),
    REFERENCE: Measure(
        Message("Right answers"), Message("gives the reference answer most often"), is_share=True
    ),
    VOTES: Measure(
        Message("Your votes"), Message("wins most of your votes"), is_share=True, of_all_seeds=True
    ),
}
DEFAULT_MEASURES = (REPEATS, VARIETY, PERPLEXITY, TOKENS, FINISHED, PASSES)


def measure_run(
    trace: Trace, checks: AnswerChecks, reference: str | None
) -> dict[str, float | None]:
    """Return the measures of a run that need no model; None where it has none.

    ``perplexity`` is that under the run's own model, if its record has it.
    """
    text = trace.outputs[0].text
    passes = trace.metrics.get("tokens_per_forward")
    return {
        REPEATS: trace.metrics.get("rep_3"),
        PERPLEXITY: trace.metrics.get("perplexity"),
        TOKENS: len(trace.outputs[0].token_ids),
        FINISHED: float(trace.outputs[0].finish_reason in ("eos", "stop")),
        SPEED: trace.metrics.get("tokens_per_s"),
        PASSES: 1.0 / passes if passes else None,
        PATTERN: checks.has_pattern(text),
        SCHEMA: checks.fits_schema(text),
        REFERENCE: checks.equals_reference(text, reference),
    }


def measure_variety(texts: Sequence[Sequence[int]]) -> float | None:
    """Return distinct-2 over texts: different pairs of neighbouring tokens over all pairs.

    Pairs are counted over the texts of all seeds together (1510.03055), so that settings that write
    one text again and again have a low value. None if no text has two tokens.
    """
    pairs = [pair for ids in texts for pair in pairwise(ids)]
    return len(set(pairs)) / len(pairs) if pairs else None
