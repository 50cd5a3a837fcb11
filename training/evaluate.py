"""Measure the embedded models on held-out text: one table, one JSON line last.

python -m training.evaluate --corpus FOLDER
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from engine import DecodeRequest, decode, load
from engine.trace.details import DraftDetail
from engine.trace.events import Finished
from training import corpus as corpora
from training.damage import damaged, sentences

DRAFT_LENGTH = 5
OPENINGS = 10
DRAFTED_OPENINGS = 30
RESTORED = 200


def bits_per_character(loaded: Any, documents: list[str]) -> float:
    """Return the cost of the documents and their end marks in bits per character."""
    nats = characters = 0.0
    eos = loaded.tokenizer.eos_token_id
    with torch.no_grad():
        for document in documents:
            ids = [eos, *loaded.tokenizer(document)["input_ids"], eos][: loaded.context_length]
            x = torch.tensor([ids])
            logits = loaded.model(x[:, :-1]).logits[0]
            nats += F.cross_entropy(logits, x[0, 1:], reduction="sum").item()
            characters += len(document) + 1
    return nats / characters / math.log(2)


def capitals(folder: Path) -> list[tuple[str, str]]:
    """Return (country, capital) pairs of the facts table."""
    with (folder / "facts.tsv").open() as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if len(row) >= 3]
    return [
        (s, o)
        for s, r, o, *_ in rows
        if r.strip().lower() in ("capital", "capital_of", "has capital")
    ]


def recall_by_layer(loaded: Any, pairs: list[tuple[str, str]]) -> list[float]:
    """Return, per layer, the share of capitals whose every token is the layer's greedy choice.

    Layers are read off as early exit does: final norm and output head on the layer's states.
    """
    model, layers = loaded.model, loaded.layers
    right = [0] * layers
    for country, capital in pairs:
        question = f"Question: What is the capital of {country}? Answer:"
        start = len(loaded.tokenizer(question)["input_ids"])
        ids = loaded.tokenizer(f"{question} {capital}")["input_ids"]
        with torch.no_grad():
            states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
            for layer in range(1, layers + 1):
                normed = states[layer] if layer == layers else model.model.norm(states[layer])
                best = model.lm_head(normed)[0, start - 1 : -1].argmax(-1)
                right[layer - 1] += int(best.tolist() == ids[start:])
    return [count / len(pairs) for count in right]


def acceptance(strategy: str, documents: list[str], **params: Any) -> tuple[float, float]:
    """Return what share of drafted tokens greedy drafting accepts on the starts of documents.

    Returns:
        accepted / drafted, and accepted / judged: what follows a rejection is never judged.
    """
    accepted = judged = drafted = 0
    settings = {
        "max_new_tokens": 60,
        "do_sample": False,
        "num_assistant_tokens": DRAFT_LENGTH,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }
    for document in documents:
        request = DecodeRequest(strategy, prompt=document[:120], params={**settings, **params})
        last = list(decode(request))[-1]
        if not isinstance(last, Finished):
            raise last.error
        for step in last.trace.steps:
            if isinstance(step.detail, DraftDetail):
                drafted += len(step.detail.tokens)
                accepted += sum(t.status == "accepted" for t in step.detail.tokens)
                judged += sum(t.status != "unverified" for t in step.detail.tokens)
    return accepted / drafted, accepted / judged


def seconds_per_forward(loaded: Any, n: int = 40) -> float:
    """Return the median seconds of one forward pass on one token without a cache."""
    x = torch.tensor([[5]])
    times = []
    with torch.no_grad():
        for _ in range(n):
            started = time.perf_counter()
            loaded.model(x)
            times.append(time.perf_counter() - started)
    return sorted(times)[n // 2]


def tokens_per_second(loaded: Any, tokens: int = 100) -> float:
    """Return the speed of plain generate()."""
    ids = torch.tensor([loaded.tokenizer("Once upon a time")["input_ids"]])
    started = time.perf_counter()
    loaded.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=tokens,
        min_new_tokens=tokens,
    )
    return tokens / (time.perf_counter() - started)


def openings(documents: list[str]) -> list[tuple[str, str]]:
    """Return held-out openings with what sampling at temperature 0.7 makes of them."""
    pairs = []
    for seed, document in enumerate(documents[:OPENINGS]):
        opening = " ".join(document.split()[:12])
        request = DecodeRequest(
            "sampling",
            "storyteller",
            opening,
            seed=seed,
            params={"temperature": 0.7, "max_new_tokens": 50},
        )
        last = list(decode(request))[-1]
        pairs.append((opening, last.trace.outputs[0].text))
    return pairs


def edits(wrong: str, right: str) -> int:
    """Return the Levenshtein distance in characters."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(wrong, 1):
        above, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (a != b))
    return row[-1]


def restoration(loaded: Any, documents: list[str]) -> dict[str, Any]:
    """Return character error rates of damaged held-out sentences, before and after restoring.

    Greedy and beam search with 4 beams, both plain ``generate()``, on the same sentences.
    """
    rng = random.Random(0)
    texts = sentences(documents)
    chosen = rng.sample(texts, min(RESTORED, len(texts)))
    sources = [damaged(text, rng) for text in chosen]
    batch = loaded.tokenizer(sources, return_tensors="pt", padding=True)
    characters = sum(map(len, chosen))
    found: dict[str, Any] = {
        "damaged_error_rate": sum(map(edits, sources, chosen)) / characters,
    }
    for name, beams in (("greedy", 1), ("beam_4", 4)):
        out = loaded.model.generate(**batch, max_new_tokens=80, num_beams=beams, do_sample=False)
        texts = [t.strip() for t in loaded.tokenizer.batch_decode(out, skip_special_tokens=True)]
        found[f"restored_error_rate_{name}"] = sum(map(edits, texts, chosen)) / characters
        if beams == 1:
            found["restored"] = list(zip(sources, texts, chosen, strict=True))[:OPENINGS]
    return found


def evaluate(folder: Path) -> dict[str, Any]:
    """Measure everything that this installation has."""
    corpus = corpora.read(folder)
    target = load("storyteller")
    by_layer = recall_by_layer(target, capitals(folder))
    found: dict[str, Any] = {
        "target_bits_per_character": bits_per_character(target, corpus.held_out),
        "held_out_documents": len(corpus.held_out),
        "capitals_recalled": by_layer[-1],
        "capitals_recalled_by_layer": by_layer,
        "target_tokens_per_s": tokens_per_second(target),
    }
    starts = corpus.held_out[:DRAFTED_OPENINGS]
    third = {"assistant_early_exit": target.layers // 3}
    for name, strategy, params in (
        ("early_exit", "early_exit", third),
        ("draft", "speculative", {}),
        ("foreign", "universal_assisted", {}),
    ):
        of_drafted, of_judged = acceptance(strategy, starts, **params)
        found |= {f"{name}_acceptance": of_drafted, f"{name}_acceptance_judged": of_judged}
    draft = load("storyteller-draft")
    found["draft_bits_per_character"] = bits_per_character(draft, corpus.held_out)
    found["draft_forward_share"] = seconds_per_forward(draft) / seconds_per_forward(target)
    found |= restoration(load("storyfixer"), corpus.held_out)
    found["continuations"] = openings(corpus.held_out)
    return found


def main() -> None:
    """Print the table and the JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    found = evaluate(parser.parse_args().corpus)
    for name, value in found.items():
        if isinstance(value, float):
            print(f"{name:32}{value:10.3f}")
    print("capitals by layer: " + " ".join(f"{v:.2f}" for v in found["capitals_recalled_by_layer"]))
    for opening, text in found["continuations"]:
        print(f"- {opening} … {text!r}")
    for source, restored, _ in found.get("restored", ()):
        print(f"- {source!r} → {restored!r}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
