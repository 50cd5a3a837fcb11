"""Watermarks: how many texts are found, how many are accused wrongly, and what marking costs.

Twenty prompts are continued by the embedded target with the mark and, from the same seed, without
it. Unmarked texts are judged under many keys: to a text without a mark every key is a wrong one, so
twenty texts make enough trials to see a rate of one in a hundred. A text whose z only repeats lift
above the threshold is called doubtful, neither found nor accused. The processor is timed against
transformers' own on the same scores, in turns, so that a noisy machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from transformers import WatermarkLogitsProcessor

from benchmarks.about import Goal
from benchmarks.figures import Figure, tell
from engine import DecodeRequest, Trace, decode, load
from engine.analysis.watermark_detection import build_watermark_config, detect_ids, detect_trace
from engine.statistics.watermark_statistics import Verdict
from engine.strategies.watermark import MAX_KEY
from engine.trace.events import Finished
from engine.watermark.processors import make_processor
from engine.watermark.schemes import GreenList

OPENINGS = (
    "Once upon a time, there was a little girl named Lily. She",
    "One day, a little dog went to the park with his friend. They",
    "Tom and his mom were in the kitchen. Tom wanted to",
    "There was a small bird who lived in a tall tree. Every morning",
    "Ben had a red ball. He",
    "It was a rainy day and Mia was bored. She",
    "The old man had a boat. One day he",
    "Sam and Sue liked to play in the garden. They",
    "A rabbit found a carrot near the fence. It",
    "Anna went to the beach with her dad. The water",
    "The little bear opened the door and saw",
    "Jack was afraid of the dark. At night",
    "A kind woman baked a big cake. The children",
    "In the forest there was a shy fox. One day",
    "Max got a new toy train. He wanted",
    "Once there was a cat who loved to sleep. The cat",
    "Emma lost her favourite doll. She looked",
    "The farmer had many animals. The cow",
    "Two brothers built a snowman. Then",
    "A little frog lived by the pond. He",
)
THRESHOLD = 3.0
FOUND = Goal(0.95, at_least=True)
ACCUSED = Goal(0.01)
COST = Goal(1.0)
LENGTHS = (25, 50, 75, 100)


def write(strategy: str, prompt: str, seed: int, tokens: int, **params: Any) -> Trace:
    """Return the trace of one text."""
    values = {"max_new_tokens": tokens, "min_new_tokens": tokens, **params}
    request = DecodeRequest(strategy, "storyteller", prompt, params=values, seed=seed)
    last = list(decode(request))[-1]
    assert isinstance(last, Finished), last
    return last.trace


def detection(
    label: str, mark: dict[str, Any], plain: list[Trace], keys: int, tokens: int
) -> dict[str, Any]:
    """Count what is found with the mark and what is accused without it.

    Args:
        label: what the case is called.
        mark: parameters of the watermark.
        plain: the openings continued without a mark, seeded with their numbers.
        keys: keys each plain text is tried with.
        tokens: length of the texts.
    """
    marked = [write("watermark", p, i, tokens, **mark) for i, p in enumerate(OPENINGS)]
    found = [detect_trace(trace) for trace in marked]
    own = [detect_trace(trace, mark).verdict for trace in plain]
    tried = _under_keys(plain, mark, keys)
    prices = [
        with_mark.metrics["perplexity"] / without.metrics["perplexity"]
        for with_mark, without in zip(marked, plain, strict=True)
    ]
    return {
        "case": label,
        "texts": len(marked),
        "z_median": round(statistics.median(f.verdict.z_score for f in found), 2),
        "z_above": _share(f.verdict.prediction for f in found),
        "z_above_at": {
            n: _share(_last(f.curve, n) > THRESHOLD for f in found) for n in LENGTHS if n <= tokens
        },
        "found": _share(_marked(f.verdict) for f in found),
        "unmarked_z_above_own_key": _share(v.prediction for v in own),
        "accused_own_key": _share(_marked(v) for v in own),
        "trials": len(tried),
        "unmarked_z_above": _share(v.prediction for v in tried),
        "accused": _share(_marked(v) for v in tried),
        "perplexity_ratio_median": round(statistics.median(prices), 3),
    }


def _marked(verdict: Verdict) -> bool:
    return verdict.prediction and not verdict.doubtful


def _under_keys(plain: list[Trace], mark: dict[str, Any], keys: int) -> list[Verdict]:
    """Return the verdicts on unmarked texts under random keys, the same for every text.

    Keys in steps would not do: lefthash seeds with key times token, so they share lists.
    """
    config, verdicts, source = build_watermark_config(mark), [], random.Random(0)
    for _ in range(keys):
        several = tuple(source.randrange(MAX_KEY) for _ in config.keys)
        other = replace(config, hashing_key=source.randrange(1, MAX_KEY), keys=several)
        for trace in plain:
            ids, end = trace.outputs[0].token_ids, trace.eos_token_ids
            found = detect_ids(ids, other, trace.model.vocab_size, eos_token_ids=end)
            verdicts.append(found.verdict)
    return verdicts


def _last(curve: tuple[float | None, ...], tokens: int) -> float:
    """Return z after so many tokens; a text that ended earlier keeps its last."""
    value = curve[min(tokens, len(curve)) - 1]
    return 0.0 if value is None else value


def _share(outcomes: Iterable[bool]) -> float:
    several = list(outcomes)
    return round(sum(several) / len(several), 4)


def cost(vocab_size: int, seeding_scheme: str, rounds: int) -> dict[str, Any]:
    """Time our processor and transformers' on the same scores, in turns."""
    settings = {"seeding_scheme": seeding_scheme, "context_width": 4}
    processors = [
        make_processor(GreenList(**settings), vocab_size, "cpu"),
        WatermarkLogitsProcessor(vocab_size=vocab_size, device="cpu", **settings),
    ]
    torch.manual_seed(0)
    ids, scores = torch.randint(0, vocab_size, (1, 8)), torch.randn(1, vocab_size)
    assert torch.equal(*(processor(ids, scores) for processor in processors))
    seconds: list[list[float]] = [[], []]
    for _ in range(rounds):
        scores = torch.randn(1, vocab_size)
        for processor, times in zip(processors, seconds, strict=True):
            started = time.perf_counter()
            processor(ids, scores)
            times.append(time.perf_counter() - started)
    mine, theirs = (1000 * statistics.median(times) for times in seconds)
    return {
        "case": f"{seeding_scheme}, vocabulary of {vocab_size}",
        "ours_ms": round(mine, 3),
        "transformers_ms": round(theirs, 3),
        "ratio": round(mine / theirs, 3),
        "n": rounds,
    }


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument(
        "--keys", type=int, default=50, help="keys each unmarked text is tried with"
    )
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    load("storyteller")
    marks: dict[str, dict[str, Any]] = {
        "lefthash, bias 2.5": {"bias": 2.5},
        "selfhash, bias 2.5": {"bias": 2.5, "seeding_scheme": "selfhash", "context_width": 4},
        "synthid": {"scheme": "synthid"},
    }
    print(f"{len(OPENINGS)} prompts, {arguments.tokens} tokens, threshold z = {THRESHOLD:g}")
    plain = [write("sampling", p, i, arguments.tokens) for i, p in enumerate(OPENINGS)]
    found = []
    for label, mark in marks.items():
        r = detection(label, mark, plain, arguments.keys, arguments.tokens)
        found.append(r)
        along = ", ".join(f"{100 * share:.0f} % at {n}" for n, share in r["z_above_at"].items())
        print(
            f"  {r['case']:19} z above it {100 * r['z_above']:.0f} % (median {r['z_median']}; "
            f"{along}), found without doubt {100 * r['found']:.0f} %; "
            f"perplexity × {r['perplexity_ratio_median']}\n"
            f"    unmarked: z above it {100 * r['unmarked_z_above_own_key']:.0f} % under this key and "
            f"{100 * r['unmarked_z_above']:.2f} % of {r['trials']} under random ones, accused "
            f"{100 * r['accused_own_key']:.0f} % and {100 * r['accused']:.2f} %",
            flush=True,
        )
    costs = [
        cost(vocab_size, scheme, arguments.rounds)
        for scheme in ("lefthash", "selfhash")
        for vocab_size in (4096, 49_152)
    ]
    for r in costs:
        print(
            f"  {r['case']:31} {r['ours_ms']:8.3f} ms a token, transformers' own "
            f"{r['transformers_ms']:8.3f} ms: {r['ratio']:.2f} of its time (n={r['n']})"
        )
    threads = torch.get_num_threads()
    print(
        f"  chance of z above {THRESHOLD:g} for a normal z: {0.5 * math.erfc(THRESHOLD / 2**0.5):.2%}"
    )
    figures = [figure for r in found for figure in figures_of(r)]
    for r in costs:
        goal = COST if r["case"].startswith("selfhash") else None
        about = f"{r['case']}: time of ours ÷ of transformers' own"
        figures.append(Figure(about, [r["ratio"]], goal, n=r["n"]))
    tell("watermark", figures, threads=threads, detection=found)


def figures_of(result: dict[str, Any]) -> list[Figure]:
    """Return the figures of one kind of mark."""
    about, n = f"{result['case']}", len(OPENINGS)
    return [
        Figure(
            f"{about}: share of texts with z above {THRESHOLD:g}", [result["z_above"]], FOUND, n=n
        ),
        Figure(
            f"{about}: share of unmarked texts that are accused, random keys",
            [result["accused"]],
            ACCUSED,
            n=result["trials"],
        ),
        Figure(f"{about}: perplexity ×", [result["perplexity_ratio_median"]], n=n),
    ]


if __name__ == "__main__":
    main()
