"""A server with vLLM's interface for tests, whose answers have the shape of the recorded ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from engine.models.loading import LoadedModel
from engine.models.text import tokenize_text
from tests.helpers.llama_server import END_ID, TokenServer, distribution_of, order_tokens
from tests.helpers.model_server import Answer, Asked, Reply

_SIGNS = 1_000
"""Added to the code of a character that is no part of a word: such tokens are not in the model."""


def vllm_of(loaded: LoadedModel) -> Vllm:
    """Return a server of a model on this machine, with its tokenizer."""
    assert loaded.tokenizer is not None
    split = partial(tokenize_text, loaded.tokenizer)
    words = [loaded.pieces[i] for i in range(loaded.vocab_size)]
    return Vllm(
        distribution_of(loaded),
        words,
        split=lambda text: split(text)["input_ids"],
        join=loaded.tokenizer.decode,
    )


@dataclass
class Vllm(TokenServer):
    """A server with vLLM's interface.

    Attributes:
        parts: id -> its bytes, for tokens that are a part of a character.
        join: ids -> text; None for the words and parts.
    """

    most: int = 20
    parts: Mapping[int, bytes] = field(default_factory=dict[int, bytes])
    join: Callable[[list[int]], str] | None = None

    def answers(self) -> dict[str, Answer]:
        """Return path -> what answers it."""
        return {
            "/v1/models": lambda _: Reply({"data": [{"id": "m", "owned_by": "vllm"}]}),
            "/tokenize": self.tokenize,
            "/detokenize": lambda a: Reply({"prompt": self.decode(a.body["tokens"])}),
            "/v1/completions": self.complete,
        }

    def tokenize(self, asked: Asked) -> Reply:
        """Answer with a token for each word, or for each character of a text that begins with none."""
        body = asked.body
        text = body.get("prompt") or "".join(m["content"] for m in body["messages"])
        signs = self.split is None and not text[:1].isalpha()
        ids = [_SIGNS + ord(sign) for sign in text] if signs else self.split_words(text)
        return Reply({"count": len(ids), "max_model_len": 512, "tokens": ids, "token_strs": None})

    def decode(self, ids: list[int]) -> str:
        """Return the text of ids."""
        if self.join is not None:
            return self.join(ids)
        return b"".join(map(self._bytes, ids)).decode(errors="replace")

    def _bytes(self, token_id: int) -> bytes:
        if token_id >= _SIGNS:
            return chr(token_id - _SIGNS).encode()
        return self.parts.get(token_id, self.words[token_id].encode())

    def complete(self, asked: Asked) -> Reply:
        """Answer with the most probable tokens, or with a stream of them."""
        body, size = asked.body, len(self.words)
        self.completions.append(body)
        beyond = [int(i) for i in body.get("logit_bias", {}) if int(i) >= size]
        if beyond:
            return _refuse(
                f"token_id(s) {beyond} in logit_bias contain out-of-vocab token ids. "
                f"Vocabulary size: {size} (parameter=logit_bias, value={beyond})"
            )
        if body["logprobs"] > self.most:
            return _refuse(
                f"Requested sample logprobs of {body['logprobs']}, which is greater than max "
                f"allowed: {self.most} (parameter=logprobs, value={body['logprobs']})"
            )
        choices = self._choices(body)
        if body.get("stream"):
            return self.send_stream(self._to_stream(body, choices))
        return Reply(self.change(self._to_answer(body, choices)))

    def _choices(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the choice of a stream's events, one for each token."""
        found, ids, said = list[dict[str, Any]](), list[int](), ""
        allowed = body.get("allowed_token_ids", ())
        for token, logprobs in self.generate(body["prompt"], body["max_tokens"], allowed):
            ids.append(token)
            # The server keeps a part of a character back.
            text = self.decode(ids).rstrip("\ufffd")
            found.append(
                {
                    "index": 0,
                    "text": text[len(said) :],
                    "logprobs": self._logprobs(body, token, logprobs),
                    "finish_reason": None,
                    "stop_reason": None,
                    "token_ids": [token],
                    "prompt_token_ids": None if found else body["prompt"],
                }
            )
            said = text
        found[-1]["finish_reason"] = "stop" if ids[-1] == END_ID else "length"
        return found

    def _logprobs(
        self, body: dict[str, Any], token: int, logprobs: Sequence[float]
    ) -> dict[str, Any]:
        name = self._name if not body["return_tokens_as_token_ids"] else "token_id:{}".format
        # The chosen token comes first, and in addition to the others if it is not one of them.
        listed = dict.fromkeys((token, *order_tokens(logprobs)[: body["logprobs"]]))
        return {
            "text_offset": [0],
            "token_logprobs": [max(logprobs[token], -9999.0)],
            "tokens": [name(token)],
            "top_logprobs": [{name(i): max(logprobs[i], -9999.0) for i in listed}],
        }

    def _name(self, token: int) -> str:
        return self.decode([token]).rstrip("\ufffd")

    def _to_stream(
        self, body: dict[str, Any], choices: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        whole = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m"}
        last = {"choices": [], "usage": _usage(body, len(choices))}
        return [{**whole, "choices": [choice]} for choice in choices] + [{**whole, **last}]

    def _to_answer(self, body: dict[str, Any], choices: list[dict[str, Any]]) -> dict[str, Any]:
        logprobs: dict[str, list[Any]] = {}
        for choice in choices:
            for name, values in choice["logprobs"].items():
                logprobs.setdefault(name, []).extend(values)
        joined = {
            "index": 0,
            "text": "".join(choice["text"] for choice in choices),
            "logprobs": logprobs,
            "finish_reason": choices[-1]["finish_reason"],
            "stop_reason": None,
            "token_ids": [token for choice in choices for token in choice["token_ids"]],
            "prompt_logprobs": None,
            "prompt_token_ids": body["prompt"],
            "routed_experts": None,
        }
        nothing = dict.fromkeys(("kv_transfer_params", "ec_transfer_params", "metrics"))
        return {
            "id": "cmpl-1",
            "object": "text_completion",
            "created": 1,
            "model": "m",
            "choices": [joined],
            "service_tier": None,
            "system_fingerprint": "vllm-0.32.0-0b55d6e5",
            "usage": _usage(body, len(choices)),
            **nothing,
        }


def _usage(body: dict[str, Any], count: int) -> dict[str, Any]:
    before = len(body["prompt"])
    return {
        "prompt_tokens": before,
        "total_tokens": before + count,
        "completion_tokens": count,
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }


def _refuse(why: str) -> Reply:
    parameter = why.rpartition("parameter=")[2].partition(",")[0]
    error = {"message": why, "type": "BadRequestError", "param": parameter, "code": 400}
    return Reply({"error": error}, 400)
