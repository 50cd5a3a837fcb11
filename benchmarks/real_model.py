"""Every strategy on a real model beside the embedded one: what of the effects is the method's, what the model's.

The same openings are continued by SmolLM2 135M Instruct (``python -m engine fetch smollm2``) and by
Storyteller. The first text of an opening is judged by the model that wrote it, in one teacher-forced pass,
held as it was when it wrote; ``--dtype`` and the like hold both models otherwise.
Figures are means over the openings with their standard error. ``--write`` makes docs/real_model.md of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.watermark import OPENINGS
from engine import DecodeRequest, LoadedModel, Trace, decode, load
from engine.analysis.likelihood import score_trace
from engine.analysis.watermark_detection import detect_trace
from engine.cli import weight_options
from engine.cli.wrap_markdown import wrap_markdown
from engine.declare.weights import parse_weights
from engine.models.install import install_model
from engine.statistics.metrics import repetition_rate
from engine.statistics.weights_summary import describe_weights
from engine.trace.details import BeamDetail, DraftDetail
from engine.trace.events import Finished
from engine.trace.records import ModelInfo

PAGE = Path(__file__).parents[1] / "docs" / "real_model.md"
MODELS = ("smollm2", "storyteller")
DRAWS = 4
Figures = dict[str, float]
Measure = Callable[[Trace, Trace], Figures]


def run(model: LoadedModel, strategy: str, prompt: str, seed: int, **params: Any) -> Trace:
    """Return the trace of one text."""
    assistant = params.pop("assistant", None)
    request = DecodeRequest(
        strategy, model, prompt, params=params, seed=seed, assistant=assistant, top_candidates=50
    )
    last = list(decode(request))[-1]
    assert isinstance(last, Finished), last
    return last.trace


def text(trace: Trace, greedy: Trace) -> Figures:
    """Return how far one text repeats itself."""
    del greedy
    return {"rep_3": repetition_rate(trace.outputs[0].token_ids, 3)}


def differs(trace: Trace, greedy: Trace) -> Figures:
    """Return whether a text is another than that of greedy search."""
    other = trace.outputs[0].token_ids != greedy.outputs[0].token_ids
    return {**text(trace, greedy), "differs_from_greedy": float(other)}


def diversity(trace: Trace, greedy: Trace) -> Figures:
    """Return how many pairs of tokens are distinct in all texts of one opening together."""
    grams = [
        pair
        for output in trace.outputs
        for pair in zip(output.token_ids, output.token_ids[1:], strict=False)
    ]
    return {**text(trace, greedy), "distinct_2_of_all": len(set(grams)) / max(1, len(grams))}


def gain(trace: Trace, greedy: Trace) -> Figures:
    """Return by how much a search's best text is more probable than the greedy one, nats per token."""
    last = trace.details(BeamDetail)[-1][1]
    best, path = trace.outputs[0].score, last.greedy
    assert best is not None
    assert path is not None
    return {**differs(trace, greedy), "gain_over_greedy": best - path.score}


def reordered(trace: Trace, greedy: Trace) -> Figures:
    """Return how often the token was not the model's own first choice."""
    chosen = [c for s in trace.steps for c in s.candidates if c.token_id == s.emit[0]]
    return {**text(trace, greedy), "not_first": sum(c.rank > 0 for c in chosen) / len(chosen)}


def drafted(trace: Trace, greedy: Trace) -> Figures:
    """Return how many drafted tokens were accepted, and tokens for a pass of the target."""
    rounds = [detail for _, detail in trace.details(DraftDetail)]
    judged = [t.status for detail in rounds for t in detail.tokens if t.status != "unverified"]
    figures = {"tokens_per_pass": trace.metrics["tokens_per_forward"]}
    if judged:
        figures["accepted"] = judged.count("accepted") / len(judged)
    same = trace.outputs[0].token_ids == greedy.outputs[0].token_ids
    return {**figures, "same_as_greedy": float(same)}


def marked(trace: Trace, greedy: Trace) -> Figures:
    """Return the z-score of the mark, and whether it is found."""
    verdict = detect_trace(trace).verdict
    return {**text(trace, greedy), "z": verdict.z_score, "found": float(verdict.prediction)}


def cases(model: LoadedModel) -> list[tuple[str, str, dict[str, Any], Measure]]:
    """Return (label, strategy, parameters, measure) of all that is measured."""
    sampled = [
        (
            f"sampling, temperature {t}",
            "sampling",
            {"temperature": t, "top_k": 0, "num_return_sequences": DRAWS},
            diversity,
        )
        for t in (0.5, 1.0, 1.5)
    ]
    beams = {"num_beams": 4}
    early = {"num_assistant_tokens": 4, "assistant_confidence_threshold": 0.0}
    foreign = load("storyteller-draft" if model.name != "storyteller" else "foreign-draft")
    found: list[tuple[str, str, dict[str, Any], Measure]] = [
        *sampled,
        ("beam search, 4 beams", "beam_search", beams, gain),
        ("beam sampling, 4 beams", "beam_sampling", beams, differs),
        (
            "diverse beams, 4 in 4 groups",
            "diverse_beam_search",
            {
                "num_beams": 4,
                "num_beam_groups": 4,
                "diversity_penalty": 1.0,
                "num_return_sequences": DRAWS,
            },
            diversity,
        ),
        (
            "contrastive search, alpha 0.6, top 4",
            "contrastive_search",
            {"penalty_alpha": 0.6, "top_k": 4},
            reordered,
        ),
        ("DoLa, upper layers", "dola", {"dola_layers": "high"}, reordered),
        ("prompt lookup", "prompt_lookup", {}, drafted),
        (
            "early exit after half of the layers",
            "early_exit",
            {**early, "assistant_early_exit": model.layers // 2},
            drafted,
        ),
        ("drafts of another tokenizer", "universal_assisted", {"assistant": foreign}, drafted),
        ("watermark, lefthash", "watermark", {}, marked),
    ]
    if model.name == "storyteller":
        draft = load("storyteller-draft")
        found.append(("drafts of the same tokenizer", "speculative", {"assistant": draft}, drafted))
    return found


def measure(model: LoadedModel, openings: Iterable[str], tokens: int) -> list[dict[str, Any]]:
    """Return the figures of one model, a row for each case."""
    several = list(enumerate(openings))
    limit = {"max_new_tokens": tokens}
    greedy = [run(model, "greedy", prompt, seed, **limit) for seed, prompt in several]
    rows = [_row(model, "greedy", greedy, greedy, text)]
    for label, strategy, params, figures in cases(model):
        again = partial(run, model, strategy, **limit, **params)
        traces = [again(prompt=prompt, seed=seed) for seed, prompt in several]
        rows.append(_row(model, label, traces, greedy, figures))
        print(f"{model.name:12} {rows[-1]}", flush=True)
    return rows


def _row(
    model: LoadedModel, label: str, traces: list[Trace], greedy: list[Trace], figures: Measure
) -> dict[str, Any]:
    found: dict[str, list[float]] = {}
    for trace, plain in zip(traces, greedy, strict=True):
        judged = score_trace(trace, model).mean_logprob
        several = {**figures(trace, plain), "logprob": judged}
        for name, value in several.items():
            if value is not None:
                found.setdefault(name, []).append(value)
    shown = {name: _mean(values) for name, values in found.items()}
    return {"case": label, "n": len(traces), **shown}


def _mean(values: list[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return round(statistics.fmean(values), 3), round(error, 3)


SAYS = {
    "logprob": "log-probability of a token under the model itself (nats)",
    "rep_3": "share of three-token groups that repeat an earlier one",
    "distinct_2_of_all": f"distinct pairs of tokens among all pairs of the {DRAWS} texts",
    "differs_from_greedy": "share of texts that are not the greedy one",
    "gain_over_greedy": "log-probability of a token gained over greedy search (nats)",
    "not_first": "share of tokens that were not the model's first choice",
    "accepted": "share of judged draft tokens that were accepted, where any was drafted",
    "tokens_per_pass": "tokens for one pass of the target",
    "same_as_greedy": "share of texts that are the greedy ones",
    "z": "z-score of the mark",
    "found": "share of texts whose mark is found",
}


def page(found: dict[str, list[dict[str, Any]]], tokens: int, real_model: ModelInfo) -> str:
    """Return the page that shows the figures of both models beside one another."""
    real, own = (found[name] for name in MODELS)
    n = real[0]["n"]
    lines = [
        "# A real model beside the embedded one",
        "",
        f"The same {n} openings of stories continued by {tokens} tokens at most ({describe_weights(real_model)}):"
        f" SmolLM2 135M Instruct (weights: `{real_model.revision}`), without its chat template, and Storyteller.",
        f"Means over n = {n} openings ± standard error; the openings are of the kind that Storyteller was"
        " trained on. SmolLM2 has no smaller model of its tokenizer on this machine to draft for it.",
        "Written by `python -m benchmarks.real_model --write`.",
    ]
    lines += ["", "## Which effects differ", "", *differing(real, own)]
    names = list(dict.fromkeys(row["case"] for row in (*real, *own)))
    for name in names:
        pair = [next((r for r in rows if r["case"] == name), None) for rows in (real, own)]
        lines += ["", f"## {name[0].upper()}{name[1:]}", "", "| figure | SmolLM2 | Storyteller |"]
        lines.append("|---|---|---|")
        lines += [
            f"| {says} | {_cell(pair[0], figure)} | {_cell(pair[1], figure)} |"
            for figure, says in SAYS.items()
            if any(row and figure in row for row in pair)
        ]
    return wrap_markdown("\n".join(lines) + "\n")


def differing(real: list[dict[str, Any]], own: list[dict[str, Any]]) -> list[str]:
    """Return sentences: what lies more than two standard errors of the difference apart.

    The log-probability is left out: SmolLM2 is less sure of every text of this kind.
    """
    judged = {row["case"]: row for row in own}
    lines = [
        "More than two standard errors of the difference apart, figures of SmolLM2 first; of all other effects so few"
        " openings show no difference:",
        "",
    ]
    for row in real:
        for figure, says in SAYS.items():
            pair = [r.get(figure) for r in (row, judged.get(row["case"], {}))]
            if figure == "logprob" or None in pair:
                continue
            (a, da), (b, db) = pair
            if abs(a - b) > 2 * (da**2 + db**2) ** 0.5:
                lines.append(f"- {row['case']}: {says}: {a:.3f}, {b:.3f}")
    return lines


def _cell(row: dict[str, Any] | None, figure: str) -> str:
    if row is None or figure not in row:
        return "–"
    mean, error = row[figure]
    return f"{mean:.3f} ± {error:.3f}"


def main() -> None:
    """Measure both models and print one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=len(OPENINGS), help="openings")
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--write", action="store_true", help="write docs/real_model.md")
    weight_options.add_weight_options(parser, assistant=False)
    arguments = parser.parse_args()
    held, _ = parse_weights(
        weight_options.weight_request_fields(arguments), "real_model", assistant=False
    )
    install_model("smollm2", lambda what, done, total: None)
    loaded = {name: load(name, "cpu", weights=held) for name in MODELS}
    openings = OPENINGS[: arguments.n]
    found = {name: measure(model, openings, arguments.tokens) for name, model in loaded.items()}
    if arguments.write:
        PAGE.write_text(page(found, arguments.tokens, loaded["smollm2"].info()), "utf-8")
    print(
        json.dumps(
            {
                "benchmark": "real_model",
                "tokens": arguments.tokens,
                "held": held.changed_values(),
                **found,
            }
        )
    )


if __name__ == "__main__":
    main()
