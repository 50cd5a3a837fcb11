"""Recorded answers of servers, and answers that are written from the record of a local run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.trace.records import Step, Trace, chosen_token_id

ANSWERS = Path(__file__).parents[1] / "engine" / "endpoints" / "answers"
OTHER_CALLS = {
    "llamacpp/apply_template.json": "a prompt that a server prepared",
    "llamacpp/chat_n2.json": "answered with an error: Field 'n'",
    "llamacpp/detokenize.json": "a text from a server's tokenizer",
    "llamacpp/tokenize.json": "a list of tokens",
    "vllm/chat_top100.json": "answered with an error: Requested sample logprobs of 100",
    "vllm/cmpl_zero.json": "answered with an error: max_tokens must be at least 1",
    "vllm/tokenize.json": "a list of tokens",
}
"""Answers that are no completions -> what the sentence about them says."""


def list_completions() -> list[str]:
    """Return the names of all recorded completions."""
    paths = (p for p in ANSWERS.glob("*/*") if ".request." not in p.name)
    names = (str(path.relative_to(ANSWERS)) for path in paths)
    return sorted(name for name in names if name not in OTHER_CALLS)


def read(name: str) -> bytes:
    """Return a recorded answer."""
    return (ANSWERS / name).read_bytes()


def read_request_of(name: str) -> bytes | None:
    """Return the request of a recorded answer, None if it was not kept."""
    path = ANSWERS / f"{name.rpartition('.')[0]}.request.json"
    return path.read_bytes() if path.exists() else None


def to_chat_answer(trace: Trace, k: int, *, joins: bool) -> bytes:
    """Return the answer that a server with k candidates a step would have given for a local run.

    Args:
        trace: a run of one-token steps with more than k candidates.
        k: number of candidates.
        joins: True if a chosen token outside the list takes the place of its last, as in vLLM's.
    """
    content = [_to_entry(step, trace, k, joins) for step in trace.steps]
    message = {"role": "assistant", "content": trace.outputs[0].text}
    choice = {
        "index": 0,
        "message": message,
        "logprobs": {"content": content},
        "finish_reason": "length",
    }
    more: dict[str, Any] = {"kv_transfer_params": None} if joins else {"timings": {}}
    return json.dumps({"model": "tiny", "choices": [choice], **more}).encode()


def _to_entry(step: Step, trace: Trace, k: int, joins: bool) -> dict[str, Any]:
    chosen = chosen_token_id(step)
    ranked = sorted(step.candidates, key=lambda c: -c.raw_logprob)
    own = next(c for c in ranked if c.token_id == chosen)
    top = ranked[:k]
    if joins and own not in top:
        top = [own, *ranked[: k - 1]]

    def entry(token_id: int, logprob: float) -> dict[str, Any]:
        piece = trace.pieces[token_id]
        return {"id": token_id, "token": piece, "bytes": [*piece.encode()], "logprob": logprob}

    listed = [entry(c.token_id, c.raw_logprob) for c in top]
    return {**entry(own.token_id, own.raw_logprob), "top_logprobs": listed}
