"""A GPU: recorded decode() with and without CUDA graphs beside generate(), and how far the memory allows.

Models of 1 to 8 billion random weights at bfloat16, in one process and in turns. The limit is how often
a GPU can read all weights in a second, by the bandwidth of a plain copy measured here: one row cannot be
faster. Where there is no GPU, the benchmark says so and measures nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.figures import Figure, tell
from benchmarks.timing import timed
from engine import DecodeRequest, LoadedModel, decode
from engine.models import cuda_graphs
from engine.settings import SETTINGS
from engine.trace.events import Finished

IDS = list(range(5, 37))
_WIDE = {"num_key_value_heads": 8, "vocab_size": 128_256, "max_position_embeddings": 8192}
SHAPES: dict[str, dict[str, int]] = {
    "1B": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        **_WIDE,
    },
    "3B": {
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_hidden_layers": 28,
        "num_attention_heads": 24,
        **_WIDE,
    },
    "8B": {
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        **_WIDE,
    },
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "greedy": ("greedy", {}),
    "sampling": ("sampling", {"top_k": 50}),
    "8 beams": ("beam_search", {"num_beams": 8}),
    "DoLa": ("dola", {}),
    "contrastive": ("contrastive_search", {}),
    "prompt lookup": ("prompt_lookup", {}),
}
KINDS = {
    "recorded": "recorded",
    "without_graphs": "recorded without graphs",
    "generate": "by generate()",
}
NOTHING = (
    "There was no GPU on this machine: nothing was measured. What a CPU can show of the passes that a GPU "
    "repeats (tests/engine/test_cuda_graphs.py, tests/engine/test_devices.py) the tests show."
)
PLAIN: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "top_k": 50},
    "8 beams": {"do_sample": False, "num_beams": 8},
    "prompt lookup": {"do_sample": False, "prompt_lookup_num_tokens": 10},
}
"""What generate() is given for the same job; what moved out of transformers is compared with greedy."""


def random_model(shape: dict[str, int], device: str) -> LoadedModel:
    """Return a Llama of a shape with random weights, held at bfloat16 on a device."""
    torch.manual_seed(0)
    config = LlamaConfig(bos_token_id=None, eos_token_id=None, **shape)
    with torch.device(device):
        model = LlamaForCausalLM._from_config(config, dtype=torch.bfloat16)
    return LoadedModel(model.eval(), None, "random")


def bandwidth(device: str, megabytes: int = 2048, rounds: int = 9) -> float:
    """Return bytes a second that a device reads and writes together in a plain copy, the best of some."""
    source = torch.ones(megabytes * 2**18, device=device)
    target = torch.empty_like(source)
    seconds = []
    for _ in range(rounds):
        _wait(device)
        started = time.perf_counter()
        target.copy_(source)
        _wait(device)
        seconds.append(time.perf_counter() - started)
    return 2 * source.numel() * source.element_size() / min(seconds)


def _wait(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


@contextmanager
def graphs(wanted: bool) -> Iterator[None]:
    """Let passes be repeated from graphs, or not."""
    with mock.patch.object(
        cuda_graphs, "SETTINGS", dataclasses.replace(SETTINGS, cuda_graphs=wanted)
    ):
        yield


def recorded(loaded: LoadedModel, case: str, tokens: int, wanted: bool) -> float:
    """Return tokens per second of decode()."""
    strategy, params = CASES[case]
    wide = {"max_new_tokens": tokens, "min_new_tokens": tokens - 1, **params}
    request = DecodeRequest(strategy, loaded, input_ids=IDS, params=wide)
    with graphs(wanted):
        started = time.perf_counter()
        last = list(decode(request))[-1]
        seconds = time.perf_counter() - started
    assert isinstance(last, Finished), last
    return tokens / seconds


def plain(loaded: LoadedModel, case: str, tokens: int, **more: Any) -> float:
    """Return tokens per second of generate() of the same job."""
    prompt = torch.tensor([IDS], device=loaded.device)
    generate = partial(
        loaded.model.generate,
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=tokens,
        min_new_tokens=tokens - 1,
        pad_token_id=0,
        **PLAIN.get(case, PLAIN["greedy"]),
        **more,
    )
    seconds, _ = timed(generate)
    return tokens / seconds


def compare(loaded: LoadedModel, case: str, tokens: int, rounds: int) -> dict[str, list[float]]:
    """Interleave all and return the tokens per second of each."""
    kinds: dict[str, Callable[[], float]] = {
        "recorded": partial(recorded, loaded, case, tokens, True),
        "without_graphs": partial(recorded, loaded, case, tokens, False),
        "generate": partial(plain, loaded, case, tokens),
    }
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for measure in kinds.values():
        measure()
    for _ in range(rounds):
        for name, measure in kinds.items():
            found[name].append(measure())
    return found


def measure(names: list[str], device: str, tokens: int, rounds: int) -> Iterator[Figure]:
    """Measure every case on models of some shapes, one in memory at a time."""
    speed = bandwidth(device)
    yield Figure("bandwidth of a copy, GB/s", [speed / 1e9], digits=0)
    for name in names:
        loaded = random_model(SHAPES[name], device)
        limit = speed / loaded.memory_bytes()
        yield Figure(f"{name}: what the memory allows one row, tokens/s", [limit], digits=0)
        for case in CASES:
            found = compare(loaded, case, tokens, rounds)
            for kind, values in found.items():
                yield Figure(f"{name}, {case}: {KINDS[kind]}, tokens/s", values, digits=1)
            pairs = zip(found["recorded"], found["generate"], strict=True)
            yield Figure(f"{name}, {case}: recorded ÷ generate()", [a / b for a, b in pairs])
        del loaded
        if torch.device(device).type == "cuda":
            torch.cuda.empty_cache()


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    arguments = parser.parse_args()
    there = torch.cuda.is_available()
    name = torch.cuda.get_device_name() if there else None
    print(f"A GPU: {name or 'none on this machine, nothing was measured'}")
    figures = []
    if there:
        for figure in measure(arguments.shapes, "cuda", arguments.tokens, arguments.rounds):
            print(f"  {figure}", flush=True)
            figures.append(figure)
    tell("gpu", figures, device=name, nothing=NOTHING)


if __name__ == "__main__":
    main()
