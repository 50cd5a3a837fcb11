"""Writes what Python computes of recorded runs, as JSON: ``python -m tests.helpers.numbers RUN …``.

The tests of the page's scripts draw from these numbers, as the page does, and compare those few that
the page computes itself.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from engine.analysis.gallery import FOLDER
from engine.export.steps_csv import steps_csv
from engine.statistics.metrics import perplexity_from_logprobs
from engine.statistics.rescoring import rescore_hypotheses
from engine.statistics.sign_test import sign_test
from engine.statistics.text_divergence import common_prefix_length
from engine.trace import json_io
from engine.trace.details import BeamDetail
from engine.trace.records import Trace, chosen_token_id
from visualizers import list_visuals, summarize_trace

PENALTIES = (-2.0, -0.3, 0.0, 0.7, 1.0, 2.5, 5.0)


def numbers_of(trace: Trace, others: dict[str, Trace]) -> dict[str, Any]:
    """Return one run in rows and its numbers; texts part from those of the other runs."""
    return {
        "trace": json_io.trace_to_dict(trace),
        "shown": summarize_trace(trace, list_visuals(trace)),
        "csv": steps_csv(trace),
        "rescored": rescored(trace),
        "perplexity": guessed_right(trace),
        "signs": [[k, n, sign_test(k, n)] for n in range(len(trace.steps)) for k in range(n + 1)],
        "shared": {name: together(trace, other) for name, other in others.items()},
    }


def rescored(trace: Trace) -> list[dict[str, Any]]:
    """Return the ranking of a search under several length penalties, nothing for other runs."""
    if not trace.details(BeamDetail):
        return []
    own = trace.config["length_penalty"]
    found = [rescore_hypotheses(trace, penalty) for penalty in (own, *PENALTIES)]
    return [
        {
            "penalty": result.length_penalty,
            "ranking": [
                [line.node_id, line.length, line.sum_logprobs, line.score]
                for line in result.ranking
            ],
            "end": result.ends_at,
            "rerun": result.rerun,
        }
        for result in found
    ]


def guessed_right(trace: Trace) -> float | None:
    """Return the perplexity of the tokens that steps have candidates of, None without any."""
    own = [
        c.raw_logprob for s in trace.steps for c in s.candidates if c.token_id == chosen_token_id(s)
    ]
    return perplexity_from_logprobs(own) if own else None


def together(a: Trace, b: Trace) -> int | None:
    """Return where two texts part, prompt and all, None where they are the same."""
    texts = [[*trace.prompt_ids, *trace.outputs[0].token_ids] for trace in (a, b)]
    common, part = common_prefix_length(texts, [True, True])
    return common if part else None


def main(names: list[str]) -> None:
    """Write the numbers of recorded runs."""
    traces = {name: json_io.load(FOLDER / f"{name}.json.gz") for name in names}
    found = {name: numbers_of(trace, traces) for name, trace in traces.items()}
    sys.stdout.write(json.dumps(found, allow_nan=False))


if __name__ == "__main__":
    main(sys.argv[1:])
