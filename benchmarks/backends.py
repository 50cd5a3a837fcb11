"""What another engine for the passes gains: recorded runs on OpenVINO against torch's plain generate().

Both sides do the same job in one process, interleaved A B A B: ``decode()`` with every step recorded on
``openvino`` and ``openvino-int8``, and transformers' ``generate()`` in float32 without a record. DoLa and
contrastive search, which generate() has not, stand against its greedy search. Then the texts are compared: greedy and
beams over twenty prompts, with the gap of the logits where two texts part, and seeded sampling.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.about import Goal
from benchmarks.figures import Figure, tell
from engine import DecodeRequest, decode, load
from engine.declare.weights import WeightsParams
from engine.loops.teacher_forced import run_teacher_forced
from engine.models.install import install_model
from engine.models.openvino.comparison import TOLERANCE
from engine.one_shot_thread import run_in_thread
from engine.trace.events import Failed, Finished

PROMPTS = (
    "Once upon a time, there was a little frog who",
    "The little bear opened the door and saw",
    "A brave little mouse lived under the old tree. One morning",
    "The committee of seven astronomers voted to",
    "One day a girl found a key in the garden and",
    "The king had three sons. The youngest",
    "In the deep forest there lived an owl that",
    "Tom and his sister wanted to build a boat, so",
    "It was raining, and the cat",
    "The old clock on the wall",
    "Grandma baked a cake for",
    "The dragon was not angry at all. It only wanted",
    "When the sun went down, the children",
    "There was a hole in the fence, and through it",
    "The fisherman pulled up his net and",
    "On the first day of school Anna",
    "Far away, behind the mountains,",
    "The train stopped in the middle of the field because",
    "Nobody knew who had left the box",
    "The smallest star in the sky",
)
LOOKUP = (
    "The red ball is in the big box. The big box is in the room. The red ball is in the big box."
)
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
_CLOCK = ["wall"]
BACKENDS = ("openvino", "openvino-int8")
EXIT = {"assistant_early_exit": 4, "num_assistant_tokens": 4, "assistant_confidence_threshold": 0.0}
DRAFT = {"num_assistant_tokens": 5, "assistant_confidence_threshold": 0.0}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "greedy": ("greedy", {}, {}),
    "sampling": ("sampling", {"top_k": 50}, {"do_sample": True, "top_k": 50}),
    "8 beams": ("beam_search", {"num_beams": 8}, {"num_beams": 8}),
    "speculative": ("speculative", DRAFT, DRAFT),
    "lookup": ("prompt_lookup", {"prompt_lookup_num_tokens": 5}, {"prompt_lookup_num_tokens": 5}),
    "early exit": ("early_exit", EXIT, EXIT),
    "contrastive ÷ greedy": ("contrastive_search", {"penalty_alpha": 0.6, "top_k": 4}, {}),
    "DoLa ÷ greedy": ("dola", {"dola_layers": "high"}, {}),
}
"""Case -> strategy, its parameters, and what generate() is given."""
_DRAFTED = dict.fromkeys(("speculative", "lookup", "early exit"), 1.5)
_BY_GREEDY = {"contrastive ÷ greedy": 1.0, "DoLa ÷ greedy": 1.0}
GOALS: dict[str, dict[str, float]] = {
    "openvino": {"greedy": 1.3, "sampling": 1.3, "8 beams": 1.5, **_DRAFTED, **_BY_GREEDY},
    "openvino-int8": {"greedy": 2.2, "8 beams": 2.5},
}


def _now() -> float:
    return CLOCKS[_CLOCK[0]]()


def recorded(
    case: str, model: str, ids: list[int], tokens: int, backend: str, seed: int = 1
) -> tuple[float, Any]:
    """Return tokens per second of decode(), and its trace."""
    strategy, params, _ = CASES[case]
    params = {"max_new_tokens": tokens, "min_new_tokens": tokens - 1, **params}
    weights = {"backend": backend}
    if strategy == "speculative":
        weights["assistant_backend"] = backend
    request = DecodeRequest(
        strategy, model, input_ids=ids, params=params, weights=weights, seed=seed
    )
    started = _now()
    last = list(decode(request))[-1]
    seconds = _now() - started
    if isinstance(last, Failed):
        raise last.error
    assert isinstance(last, Finished)
    return len(last.trace.outputs[0].token_ids) / seconds, last.trace


def plain(case: str, model: str, ids: list[int], tokens: int) -> tuple[float, list[int]]:
    """Return tokens per second of generate() on torch, and its new tokens."""
    given = dict(CASES[case][2])
    if case == "speculative":
        given["assistant_model"] = load("storyteller-draft").model
    prompt = torch.tensor([ids])
    torch.manual_seed(1)
    options = {"do_sample": False, "num_assistant_tokens_schedule": "constant", **given}
    started = _now()
    out = run_in_thread(
        partial(
            load(model).model.generate,
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=tokens,
            min_new_tokens=tokens - 1,
            **options,
        )
    )
    seconds = _now() - started
    new = out[0, len(ids) :].tolist()
    return len(new) / seconds, new


def ratios(model: str, case: str, tokens: int, rounds: int) -> list[Figure]:
    """Interleave torch and both backends; return what each takes of torch's time."""
    ids = load(model).tokenizer(LOOKUP if case == "lookup" else PROMPTS[0]).input_ids
    found: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
    for backend in BACKENDS:
        recorded(case, model, ids, 4, backend)
    plain(case, model, ids, 4)
    for _ in range(rounds):
        for backend in BACKENDS:
            theirs = plain(case, model, ids, tokens)[0]
            found[backend].append(recorded(case, model, ids, tokens, backend)[0] / theirs)
    return [
        Figure(f"{case}, {model}, {backend}", own, _goal(GOALS[backend].get(case)))
        for backend, own in found.items()
    ]


def _goal(limit: float | None) -> Goal | None:
    return None if limit is None else Goal(limit, at_least=True, of_speed=True)


def parted(
    model: str, prompt: list[int], one: list[int], other: list[int]
) -> dict[str, Any] | None:
    """Return where two texts part, and the gap of both tokens' logits by torch; None where they are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    place = next((at for at, (a, b) in pairs if a != b), None)
    if place is None:
        return None
    loaded = load(model)
    with torch.inference_mode():
        logits = run_teacher_forced(loaded, prompt, one[: place + 1]).logits[-1]
    gap = abs(float(logits[one[place]] - logits[other[place]]))
    return {"place": place, "gap": float(f"{gap:.3g}")}


def equality(
    model: str, case: str, tokens: int, prompts: int, backend: str
) -> tuple[Figure, list[dict[str, Any]]]:
    """Return how many texts of a backend are torch's, both by decode(), and where the others part."""
    parts: list[dict[str, Any]] = []
    loaded = load(model)
    for at, prompt in enumerate(PROMPTS[:prompts]):
        ids = loaded.tokenizer(prompt).input_ids
        one, other = (
            list(recorded(case, model, ids, tokens, b, seed=at)[1].outputs[0].token_ids)
            for b in ("torch", backend)
        )
        part = parted(model, ids, one, other)
        parts += [] if part is None else [{"prompt": at, **part}]
    exact = backend == "openvino" and case != "sampling"
    what = f"{case}, {model}, {backend}: texts of {prompts} that are torch's, {tokens} tokens each"
    goal = Goal(prompts, at_least=True) if exact else None
    return Figure(what, [prompts - len(parts)], goal), parts


def logits_apart(model: str, backend: str) -> float:
    """Return the largest difference of a backend's logits from torch's over one text."""
    own, other = load(model), load(model, weights=WeightsParams(backend=backend))
    ids = own.tokenizer(" ".join(PROMPTS[:6])).input_ids
    with torch.inference_mode():
        one, two = (run_teacher_forced(m, ids[:1], ids[1:]).logits.float() for m in (own, other))
    return float(f"{float((one - two).abs().max()):.3g}")


def conversions(model: str) -> list[Figure]:
    """Return how far a model's conversions are from it."""
    held = load(model, weights=WeightsParams(backend="openvino-int8")).info().weights
    assert held is not None
    assert held.agreement is not None
    own = held.agreement
    near = {"openvino": Goal(TOLERANCE)}
    return [
        *(
            Figure(
                f"largest difference of a logit, {model}, {backend}",
                [logits_apart(model, backend)],
                near.get(backend),
                digits=6,
            )
            for backend in BACKENDS
        ),
        Figure(f"same first choice, {model}, openvino-int8", [own.same_top], digits=4),
        Figure(f"divergence in nats, {model}, openvino-int8", [own.kl], digits=5),
        Figure(f"perplexity, {model}, openvino-int8", [own.perplexity]),
        Figure(f"perplexity, {model}, torch", [own.torch_perplexity]),
    ]


def measured(arguments: argparse.Namespace, told: Callable[[Figure], None]) -> list[dict[str, Any]]:
    """Measure everything that was asked for, and tell each figure; return where texts part."""
    cases = [case for case in CASES if not arguments.cases or case.split(" ")[0] in arguments.cases]
    parts: list[dict[str, Any]] = []
    for model in arguments.models:
        for case in cases if arguments.rounds else ():
            if case != "speculative" or model == "storyteller":
                for figure in ratios(model, case, arguments.tokens, arguments.rounds):
                    told(figure)
        for case in ("greedy", "8 beams", "sampling") if arguments.prompts else ():
            for backend in BACKENDS if case == "greedy" else BACKENDS[:1]:
                given = (arguments.text_tokens, arguments.prompts, backend)
                figure, own = equality(model, case, *given)
                told(figure)
                parts += [
                    {"model": model, "case": case, "backend": backend, **part} for part in own
                ]
        for figure in conversions(model):
            told(figure)
    return parts


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["storyteller", "smollm2"])
    parser.add_argument(
        "--cases", nargs="*", default=[], help="first words of cases; all where none"
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument(
        "--prompts", type=int, default=20, help="whose texts are compared; 0 for none"
    )
    parser.add_argument("--text-tokens", type=int, default=200)
    told = "cpu: the time of all threads, for a busy machine"
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help=told)
    arguments = parser.parse_args()
    _CLOCK[0] = arguments.clock
    threads, clock = torch.get_num_threads(), arguments.clock
    if "smollm2" in arguments.models:
        install_model("smollm2", lambda what, done, total: None)
    print(f"Recorded decode() ÷ plain generate(), {clock} time, {threads} threads", flush=True)
    figures: list[Figure] = []

    def told_of(figure: Figure) -> None:
        print(f"  {figure}", flush=True)
        figures.append(figure)

    parts = measured(arguments, told_of)
    for part in parts:
        print(f"  {part}")
    tell("backends", figures, threads=threads, clock=clock, parts=parts)


if __name__ == "__main__":
    main()
