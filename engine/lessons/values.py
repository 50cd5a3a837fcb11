"""What a lesson may say of a run: its trace as plain records, with a few figures that follow from it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Any

from engine.lessons.looks import Looked
from engine.reading.quoted import quoted
from engine.reading.watermark_statistics import Z_THRESHOLD
from engine.reading.watermark_statistics import verdict as verdict_on
from engine.trace import json_io
from engine.trace.records import Trace, own_place, own_token

Record = dict[str, Any]
_NATS_A_BIT = math.log(2)


def run_of(trace: Trace, looked: Sequence[Looked] = ()) -> Record:
    """Return a run as a record.

    Args:
        trace: the run.
        looked: what its steps looked at.

    Entries: ``strategy``, ``seed``, ``config``, ``prompt``, ``text`` (of the first output), ``texts``,
    ``tokens`` (texts of the first output's tokens), ``context`` (those of the prompt before them), ``steps``
    (see ``step_of``), ``figures`` (the metrics that do not depend on a clock, and what ``reading.quoted``
    reads), ``acceptance`` of drafted tokens, ``tokens_per_pass``, and ``greedy`` beside a beam search; what
    a run has not, it has no entry for. A step that was looked into has ``looked``: by name, and in it by ``cross``,
    ``self``, ``encoder`` or ``decoder``, its places with ``place`` from 1, ``text``, ``value`` and, of a picture,
    ``row`` and ``column`` from 1, of a sound the ``second`` at which it begins.
    """
    piece = trace.pieces.get
    metrics = {n: v for n, v in trace.metrics.items() if n != "tokens_per_s"}
    tokens = [piece(i, "") for i in trace.outputs[0].token_ids] if trace.outputs else []
    record: Record = {
        "strategy": trace.strategy,
        "model": trace.model.id,
        "vocab_size": trace.model.vocab_size,
        "seed": trace.seed,
        "config": trace.config,
        "prompt": trace.prompt or "",
        "text": trace.outputs[0].text if trace.outputs else "",
        "texts": [output.text for output in trace.outputs],
        "tokens": tokens,
        "context": [*(piece(i, "") for i in trace.prompt_ids), *tokens],
        "steps": [step_of(trace, index) for index in range(len(trace.steps))],
        "figures": {**metrics, **quoted(trace)},
    }
    for one in looked:
        look, parts = one["look"], one["answer"]["parts"]
        seen = record["steps"][look["step"] - 1].setdefault("looked", {})
        seen[look["name"]] = {part["kind"]: _places(part) for part in parts}
    return record | _drafted(record["steps"]) | _searched(trace, record["steps"])


def _places(part: Mapping[str, Any]) -> list[Record]:
    """Return the places of a part of an answer with their numbers."""
    grid, pieces = part["grid"], part["pieces"]
    found = []
    for at, value in enumerate(part["values"]):
        one: Record = {"place": at + 1, "text": pieces[at] if pieces else "", "value": value}
        if grid and at >= part["leading"]:
            row, column = divmod(at - part["leading"], grid[1])
            one |= {"row": row + 1, "column": column + 1}
        if part["starts"]:
            one["second"] = part["starts"][at]
        found.append(one)
    return found


def step_of(trace: Trace, index: int) -> Record:
    """Return a step as a record: its fields in the trace file, and what follows from them.

    Added: ``number`` from 1; ``text``, the tokens it wrote; ``token``, the one its candidates are of, and ``p``,
    ``used`` and ``rank`` (from 1) of that one: the model's own probability, the one after all processors,
    and its place; ``n_candidates``. A candidate has ``token``, ``p`` and ``used``; so do the tokens of details.
    """
    step = trace.steps[index]
    record = _named(json_io.step_to_dict(step), trace.pieces)
    candidates = [_candidate(one) for one in record["candidates"]]
    own = own_token(step)
    record |= {
        "number": index + 1,
        "text": "".join(trace.pieces.get(i, "") for i in step.emit),
        "token": "" if own is None else trace.pieces.get(own, ""),
        "place": own_place(step),
        "candidates": candidates,
        "entropy_used": step.stages[-1].entropy if step.stages else step.entropy,
        "n_used": step.stages[-1].kept if step.stages else trace.model.vocab_size,
        "stage": {stage["name"]: stage for stage in record["stages"]},
    }
    chosen = next((one for one in candidates if one["token_id"] == own), None)
    return record | ({n: chosen[n] for n in ("p", "used", "rank")} if chosen else {})


def _named(value: Any, pieces: Mapping[int, str]) -> Any:
    """Return JSON values whose records with a token_id have its text, too."""
    if isinstance(value, Mapping):
        named = {name: _named(entry, pieces) for name, entry in value.items()}
        token = value.get("token_id")
        return named if token is None else {**named, "token": pieces.get(token, "")}
    return [_named(entry, pieces) for entry in value] if isinstance(value, list) else value


def _candidate(record: Record) -> Record:
    raw, used = record["raw_logprob"], record["processed_logprob"]
    return {
        **record,
        "p": math.exp(raw),
        "used": 0.0 if isinstance(used, str) or used is None else math.exp(used),
        "rank": record["rank"] + 1,
    }


def _drafted(steps: Sequence[Record]) -> Record:
    """Return what became of the drafted tokens of a run, nothing where none were."""
    rounds = [s["detail"] for s in steps if (s["detail"] or {}).get("kind") == "draft"]
    tried = [t for r in rounds for t in r["tokens"] if t["status"] != "unverified"]
    if not tried:
        return {}
    accepted = sum(token["status"] == "accepted" for token in tried)
    return {
        "rounds": len(rounds),
        "drafted": sum(len(r["tokens"]) for r in rounds),
        "accepted": accepted,
        "acceptance": accepted / len(tried),
    }


def _searched(trace: Trace, steps: Sequence[Record]) -> Record:
    """Return the greedy path beside a search with its text, nothing where there is none."""
    detail = (steps[-1]["detail"] or {}) if steps else {}
    greedy = detail.get("greedy")
    if detail.get("kind") != "beam" or not greedy:
        return {}
    text = "".join(
        trace.pieces.get(i, "")
        for i in greedy["token_ids"]
        if i not in (*trace.eos_token_ids, *trace.special_token_ids)
    )
    won = next((n for n in detail["heap"] if n["node_id"] == detail["winner_node_id"]), None)
    return {"greedy": {**greedy, "text": text}} | ({"winner": won} if won else {})


def at(run: Record, number: int) -> Record:
    """Return step ``number`` of a run, from 1."""
    if type(number) is not int or not 1 <= number <= len(run["steps"]):
        raise IndexError(number)
    return run["steps"][number - 1]


def last(run: Record) -> Record:
    """Return the last step of a run."""
    return run["steps"][-1]


def best(step: Record, place: int) -> Record:
    """Return the candidate that is ``place``-th in the model's own distribution, from 1."""
    return next(c for c in _by_rank(step) if c["rank"] == place)


def candidate(step: Record, token: str) -> Record:
    """Return the candidate with this text."""
    return next(c for c in _by_rank(step) if c["token"] == token)


def _by_rank(step: Record) -> list[Record]:
    found = sorted(step["candidates"], key=lambda one: one["rank"])
    if not found:
        raise ValueError("no candidates")
    return found


def bits(nats: float) -> float:
    """Return nats in bits."""
    return nats / _NATS_A_BIT


def surprise(p: float) -> float:
    """Return how surprising something of a probability is, in bits."""
    return -math.log2(p)


def perplexity(nats: float) -> float:
    """Return exp of nats: how many equally probable tokens are as uncertain."""
    return math.exp(min(nats, 700.0))


def hottest(step: Record, temperature: float) -> float:
    """Return the probability of a step's first candidate at another temperature.

    Its candidates have to be all that is left after the processors of the step, which was decided at
    temperature 1: only then does the record have the whole distribution.
    """
    left = [c["used"] for c in step["candidates"] if c["used"] > 0]
    if temperature <= 0 or len(left) != step["n_used"]:
        raise ValueError("not the whole distribution")
    scaled = [p ** (1 / temperature) for p in left]
    return max(scaled) / math.fsum(scaled)


def temperature_for(step: Record, share: float) -> float:
    """Return the temperature at which the first candidate of a step has a probability; see ``hottest``."""
    low, high = 1e-3, 1e3
    if not hottest(step, high) < share < hottest(step, low):
        raise ValueError("no temperature does")
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if hottest(step, middle) > share else (low, middle)
    return low


def parting(first: Record, second: Record) -> int:
    """Return the number, from 1, of the first token in which two runs differ, 0 where they do not."""
    pairs = zip_longest(first["tokens"], second["tokens"])
    return next((i + 1 for i, (a, b) in enumerate(pairs) if a != b), 0)


def total(records: Sequence[Record], name: str) -> float:
    """Return the sum of one number of several records."""
    return math.fsum(float(record[name]) for record in records)


def count(records: Sequence[Record], name: str, value: Any) -> int:
    """Return how many records have a value."""
    return sum(record.get(name) == value for record in records)


def where(records: Sequence[Record], name: str, value: Any) -> list[Record]:
    """Return the records that have a value, in their order."""
    return [record for record in records if record.get(name) == value]


def since(records: Sequence[Record], name: str, value: Any) -> int:
    """Return how many records come before the part at the end in which all have a value; all where none has."""
    return next((i + 1 for i in reversed(range(len(records))) if records[i].get(name) != value), 0)


def verdict(run: Record, tokens: int | None = None) -> Record:
    """Return what the holder of the key counts in a run's text, or in its first tokens alone.

    The entries are those of ``reading.watermark_statistics.Verdict``.
    """
    marks = [step["detail"] for step in run["steps"][:tokens]]
    counts = [(m["scored"], m["fresh"], sum(m["g_values"]) + bool(m["is_green"])) for m in marks]
    found = verdict_on(
        counts,
        max(1, len(marks[-1]["g_values"])),
        marks[-1]["expected"],
        marks[-1]["chance"],
        run["config"].get("z_threshold", Z_THRESHOLD),
    )
    if found is None:
        raise ValueError("nothing counts")
    return dataclasses.asdict(found)


def between(records: Sequence[Record], name: str, low: float, high: float) -> list[Record]:
    """Return the records that have a number from ``low`` to ``high``, in their order."""
    return [record for record in records if low <= record.get(name, math.nan) <= high]


def most(records: Sequence[Record], name: str) -> Record:
    """Return the record whose number is the largest; what has none is left out."""
    return max((r for r in records if r.get(name) is not None), key=lambda record: record[name])


def peaks(run: Record, name: str, kind: str) -> list[Record]:
    """Return the place that each step looked at most, of the steps that were looked into, in their order.

    Args:
        run: a run.
        name: of the looks.
        kind: of the part of what was found.
    """
    looked = [step["looked"] for step in run["steps"] if name in step.get("looked", {})]
    return [most(one[name][kind], "value") for one in looked]


def rising(records: Sequence[Record], name: str) -> bool:
    """Return whether one number of several records grows from each to the next."""
    return all(a[name] < b[name] for a, b in pairwise(records))


def joined(records: Sequence[Record], name: str) -> str:
    """Return the texts of several records as one."""
    return "".join(record[name] for record in records)


def column(records: Sequence[Record], name: str) -> list[Any]:
    """Return one value of several records as a list."""
    return [record[name] for record in records]


FUNCTIONS = {
    "abs": abs,
    "at": at,
    "best": best,
    "between": between,
    "bits": bits,
    "candidate": candidate,
    "column": column,
    "count": count,
    "exp": lambda value: math.exp(min(value, 700.0)),
    "hottest": hottest,
    "joined": joined,
    "last": last,
    "len": len,
    "max": max,
    "min": min,
    "most": most,
    "parting": parting,
    "peaks": peaks,
    "perplexity": perplexity,
    "rising": rising,
    "since": since,
    "surprise": surprise,
    "temperature_for": temperature_for,
    "total": total,
    "verdict": verdict,
    "where": where,
}
"""What an expression may call; how a value is written is for ``told``."""
