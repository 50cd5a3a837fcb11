"""The values of a run that lessons may quote: its trace as plain records with derived figures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Any

from engine.lessons.influence_records import InfluenceRecord
from engine.statistics.run_figures import quotable_figures
from engine.statistics.watermark_statistics import Z_THRESHOLD
from engine.statistics.watermark_statistics import watermark_verdict as verdict_on
from engine.trace import json_io
from engine.trace.dial_map import DialInterval, DialMap
from engine.trace.records import Trace, chosen_emit_index, chosen_token_id

Record = dict[str, Any]
_NATS_PER_BIT = math.log(2)


def run_record(
    trace: Trace, looked: Sequence[InfluenceRecord] = (), maps: Mapping[str, DialMap] | None = None
) -> Record:
    """Return a run as a record.

    Args:
        trace: the run.
        looked: the influence answers about its steps.
        maps: dial -> its map.

    Entries: ``strategy``, ``model``, ``vocab_size``, ``seed``, ``config``, ``prompt``, ``text`` (of
    the first output), ``texts``, ``tokens`` (texts of the first output's tokens), ``context`` (the
    prompt's tokens and these), ``steps`` (see ``step_record``) and ``figures`` (metrics that do not
    depend on a clock, and those of ``statistics.run_figures``). Drafting adds ``rounds``, ``drafted``,
    ``accepted`` and ``acceptance``; beam search adds ``greedy`` and ``winner``. Other runs lack
    these entries. ``maps`` has the stretches of each dial (see ``_stretch_records``).

    A step with influence answers has ``looked``: name -> ``cross``, ``self``, ``encoder`` or
    ``decoder`` -> list of positions. A position has ``place`` from 1, ``text`` and ``value``; in a
    picture also ``row`` and ``field_values`` from 1, in a sound the ``second`` at which it begins.
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
        "steps": [step_record(trace, index) for index in range(len(trace.steps))],
        "figures": {**metrics, **quotable_figures(trace)},
        "maps": {dial: _stretch_records(found) for dial, found in (maps or {}).items()},
    }
    for one in looked:
        look, parts = one["look"], one["answer"]["parts"]
        seen = record["steps"][look["step"] - 1].setdefault("looked", {})
        seen[look["name"]] = {part["kind"]: _place_records(part) for part in parts}
    return record | _draft_figures(record["steps"]) | _search_figures(trace, record["steps"])


def _stretch_records(found: DialMap) -> list[Record]:
    """Return the stretches of a dial map as records, in ascending order.

    Entries: ``low`` and ``high``; ``text``; ``change``, the number of the first token that differs
    from the stretch before (0 for the first one); ``less_likely``, 1 if the model finds this token
    less likely than the one it replaces.
    """
    records: list[Record] = []
    before: DialInterval | None = None
    for one in found.intervals:
        record: Record = {"low": one.low, "high": one.high, "text": one.text}
        record |= {"change": 0, "less_likely": 0}
        at = one.first_change
        if before is not None and at is not None:
            record["change"] = at + 1
            # A text that is not followed may end before its neighbour differs.
            pairs = zip(before.ranks[at : at + 1], one.ranks[at : at + 1], strict=False)
            record["less_likely"] = int(any(new > old for old, new in pairs))
        records.append(record)
        before = one
    return records


def _place_records(part: Mapping[str, Any]) -> list[Record]:
    """Return the positions of one part of an influence answer as records."""
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


def step_record(trace: Trace, index: int) -> Record:
    """Return a step as a record: its fields in the trace file and derived entries.

    Derived: ``number`` from 1; ``text`` of the tokens it wrote; ``token``, the one chosen from its
    candidates, and ``place``, its index among the written tokens; ``p``, ``used`` and ``rank`` of
    that token: the model's own probability, the probability after all logits processors and the
    rank from 1; ``entropy_used`` in nats and ``n_used``, both after all processors; ``stage`` by
    name. A candidate has ``token``, ``p``, ``used`` and ``rank``; records with a ``token_id`` have
    ``token``.
    """
    step = trace.steps[index]
    record = _add_token_texts(json_io.step_to_dict(step), trace.pieces)
    candidates = [_candidate_record(one) for one in record["candidates"]]
    own = chosen_token_id(step)
    record |= {
        "number": index + 1,
        "text": "".join(trace.pieces.get(i, "") for i in step.emit),
        "token": "" if own is None else trace.pieces.get(own, ""),
        "place": chosen_emit_index(step),
        "candidates": candidates,
        "entropy_used": step.stages[-1].entropy if step.stages else step.entropy,
        "n_used": step.stages[-1].kept if step.stages else trace.model.vocab_size,
        "stage": {stage["name"]: stage for stage in record["stages"]},
    }
    chosen = next((one for one in candidates if one["token_id"] == own), None)
    return record | ({n: chosen[n] for n in ("p", "used", "rank")} if chosen else {})


def _add_token_texts(value: object, pieces: Mapping[int, str]) -> Any:
    """Return JSON values with the text ``token`` added to every record with a ``token_id``."""
    if isinstance(value, Mapping):
        named = {name: _add_token_texts(entry, pieces) for name, entry in value.items()}
        token = value.get("token_id")
        return named if token is None else {**named, "token": pieces.get(token, "")}
    return (
        [_add_token_texts(entry, pieces) for entry in value] if isinstance(value, list) else value
    )


def _candidate_record(record: Record) -> Record:
    raw, used = record["raw_logprob"], record["processed_logprob"]
    return {
        **record,
        "p": math.exp(raw),
        "used": 0.0 if isinstance(used, str) or used is None else math.exp(used),
        "rank": record["rank"] + 1,
    }


def _draft_figures(steps: Sequence[Record]) -> Record:
    """Return the counts of drafted tokens of a run; empty if none were verified."""
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


def _search_figures(trace: Trace, steps: Sequence[Record]) -> Record:
    """Return the greedy path and the winning beam of a beam search; empty without a greedy path."""
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


def step_at(run: Record, number: int) -> Record:
    """Return step ``number`` of a run, from 1."""
    if type(number) is not int or not 1 <= number <= len(run["steps"]):
        raise IndexError(number)
    return run["steps"][number - 1]


def last_step(run: Record) -> Record:
    """Return the last step of a run."""
    return run["steps"][-1]


def candidate_at_rank(step: Record, place: int) -> Record:
    """Return the candidate of rank `place`, from 1, in the model's own distribution."""
    return next(c for c in _sort_by_rank(step) if c["rank"] == place)


def candidate_with_text(step: Record, token: str) -> Record:
    """Return the candidate with this text."""
    return next(c for c in _sort_by_rank(step) if c["token"] == token)


def _sort_by_rank(step: Record) -> list[Record]:
    found = sorted(step["candidates"], key=lambda one: one["rank"])
    if not found:
        raise ValueError("no candidates")
    return found


def nats_to_bits(nats: float) -> float:
    """Convert nats to bits."""
    return nats / _NATS_PER_BIT


def surprisal_bits(p: float) -> float:
    """Return the surprisal -log2(p) in bits."""
    return -math.log2(p)


def nats_to_perplexity(nats: float) -> float:
    """Return exp(nats): the number of equally probable tokens with this entropy."""
    # math.exp overflows a little above 709.
    return math.exp(min(nats, 700.0))


def top_probability_at(step: Record, temperature: float) -> float:
    """Return the probability of a step's top candidate at another temperature.

    The step must have been decided at temperature 1, and its candidates must be all tokens that the
    processors left. Only then does the record have the whole distribution.

    Raises:
        ValueError: candidates are missing, or the temperature is not positive.
    """
    left = [c["used"] for c in step["candidates"] if c["used"] > 0]
    if temperature <= 0 or len(left) != step["n_used"]:
        raise ValueError("not the whole distribution")
    # Logits divided by T are probabilities to the power 1 / T, before they are normalised.
    scaled = [p ** (1 / temperature) for p in left]
    return max(scaled) / math.fsum(scaled)


def find_temperature(step: Record, share: float) -> float:
    """Return the temperature that gives a step's top candidate the probability `share`.

    See ``top_probability_at`` for the steps for which it is known.
    """
    low, high = 1e-3, 1e3
    if not top_probability_at(step, high) < share < top_probability_at(step, low):
        raise ValueError("no temperature does")
    # Bisection on a logarithmic scale: the probability falls as the temperature rises.
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if top_probability_at(step, middle) > share else (low, middle)
    return low


def first_difference(first: Record, second: Record) -> int:
    """Return the number, from 1, of the first token in which two runs differ; 0 if none does."""
    pairs = zip_longest(first["tokens"], second["tokens"])
    return next((i + 1 for i, (a, b) in enumerate(pairs) if a != b), 0)


def sum_field(records: Sequence[Record], name: str) -> float:
    """Return the sum of a field over records."""
    return math.fsum(float(record[name]) for record in records)


def count_equal(records: Sequence[Record], name: str, value: object) -> int:
    """Return the number of records whose field equals `value`."""
    return sum(record.get(name) == value for record in records)


def filter_equal(records: Sequence[Record], name: str, value: object) -> list[Record]:
    """Return the records whose field equals `value`, in order."""
    return [record for record in records if record.get(name) == value]


def count_before_tail(records: Sequence[Record], name: str, value: object) -> int:
    """Return how many records come before the final stretch in which all fields equal `value`.

    If the last record differs, that is all of them.
    """
    return next((i + 1 for i in reversed(range(len(records))) if records[i].get(name) != value), 0)


def watermark_verdict(run: Record, tokens: int | None = None) -> Record:
    """Return the watermark detector's verdict on a run's text or on its first `tokens` tokens.

    The entries are those of ``statistics.watermark_statistics.Verdict``.

    Raises:
        ValueError: no token counts.
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


def filter_between(records: Sequence[Record], name: str, low: float, high: float) -> list[Record]:
    """Return the records whose field is from `low` to `high`, in order."""
    return [record for record in records if low <= record.get(name, math.nan) <= high]


def record_with_most(records: Sequence[Record], name: str) -> Record:
    """Return the record with the largest value of a field; records without it are ignored."""
    return max((r for r in records if r.get(name) is not None), key=lambda record: record[name])


def peak_places(run: Record, name: str, kind: str) -> list[Record]:
    """Return the position of highest influence for each step that has influence answers, in order.

    Args:
        run: a run.
        name: name of the influence questions.
        kind: part of the answer: ``cross``, ``self``, ``encoder`` or ``decoder``.
    """
    looked = [step["looked"] for step in run["steps"] if name in step.get("looked", {})]
    return [record_with_most(one[name][kind], "value") for one in looked]


def is_rising(records: Sequence[Record], name: str) -> bool:
    """Return whether a field grows strictly from each record to the next."""
    return all(a[name] < b[name] for a, b in pairwise(records))


def join_texts(records: Sequence[Record], name: str) -> str:
    """Return the concatenated texts of a field of records."""
    return "".join(record[name] for record in records)


def field_values(records: Sequence[Record], name: str) -> list[Any]:
    """Return the values of a field of records."""
    return [record[name] for record in records]


FUNCTIONS = {
    "abs": abs,
    "at": step_at,
    "best": candidate_at_rank,
    "between": filter_between,
    "bits": nats_to_bits,
    "candidate": candidate_with_text,
    "column": field_values,
    "count": count_equal,
    "exp": lambda value: math.exp(min(value, 700.0)),
    "hottest": top_probability_at,
    "joined": join_texts,
    "last": last_step,
    "len": len,
    "max": max,
    "min": min,
    "most": record_with_most,
    "parting": first_difference,
    "peaks": peak_places,
    "perplexity": nats_to_perplexity,
    "rising": is_rising,
    "since": count_before_tail,
    "surprise": surprisal_bits,
    "temperature_for": find_temperature,
    "total": sum_field,
    "verdict": watermark_verdict,
    "where": filter_equal,
}
"""Name -> function that expressions may call; ``told`` adds those that format values."""
