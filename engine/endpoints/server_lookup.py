"""Finds out which kind of server is at an address, and asks it for token ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.endpoints.answer import Answer
from engine.endpoints.dialects import DIALECTS, LARGEST_SEED, ChatMessages, Dialect
from engine.endpoints.fields import (
    iter_objects,
    read_count,
    read_ids,
    read_list,
    read_object,
    read_text,
)
from engine.endpoints.http_client import EndpointClient, ServerError
from engine.endpoints.steps import LARGEST_VOCABULARY
from engine.endpoints.token_names import UNKNOWN_TEXT
from engine.endpoints.token_texts import TokenTexts, name_step, unnamed_ids
from engine.errors import DecodeError, ModelError, TraceError
from engine.trace.value_types import JsonObject, JsonValue

_OWNERS = {"llamacpp": "llamacpp", "vllm": "vllm", "library": "ollama"}
"""``owned_by`` of a listed model -> kind of server."""
_MAX_NAMED = 5
_VOCABULARY_SIZE = re.compile(r"vocabulary size(?::| is) (\d{1,7})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """The tokens of a prompt: ids, and the bytes of each as far as the server says them."""

    ids: tuple[int, ...]
    names: dict[int, bytes]


class ModelServer:
    """A model on a server.

    Args:
        client: an open client.
        model: the model's name there.

    Raises:
        ModelError: the server has no such model.
        DecodeError: the server cannot be reached.
    """

    def __init__(self, client: EndpointClient, model: str) -> None:
        self.client, self.model = client, model
        self.vocab_size: int | None = None
        self.dialect = self._find_dialect()
        self._texts: TokenTexts | None = None
        if self.dialect.server == "vllm":
            self.vocab_size = self._find_vocab_size()
            self._texts = TokenTexts.find(client, self.dialect.root, model, self.vocab_size)
            self.dialect.lists_ids = self._texts is not None

    def _find_dialect(self) -> Dialect:
        address = self.client.address
        try:
            listed = list(_models(self.client.get(f"{address.path or '/v1'}/models")))
        except ServerError:  # a server need not list its models
            listed = []
        kind = next((_OWNERS[o] for o in map(_owner, listed) if o in _OWNERS), "unknown")
        if kind != "llamacpp":  # which has one model, under any name
            self._check_listed(listed)
        facts = read_object(listed[0].get("meta"), "meta") if kind == "llamacpp" else {}
        self.vocab_size = read_count(facts.get("n_vocab"), "n_vocab")
        return DIALECTS[kind](address)

    def _check_listed(self, listed: list[JsonObject]) -> None:
        names = [read_text(each.get("id"), "id") for each in listed]
        if names and not {self.model, f"{self.model}:latest"} & {*names}:
            raise ModelError(
                "The server at {host} has no model {name}; it has {known}.",
                host=self.client.address.netloc,
                name=repr(self.model),
                known=", ".join(names[:_MAX_NAMED]),
            )

    def encode(self, prompt: str) -> PromptTokens:
        """Return the tokens of a text, with the tokens that the model begins with.

        Raises:
            DecodeError: the server did not answer, or without tokens.
        """
        if self.dialect.server == "vllm":
            return self._vllm_tokens({"prompt": prompt, "add_special_tokens": True})
        return self.tokenize(prompt, special=False)

    def encode_messages(self, messages: ChatMessages) -> PromptTokens:
        """Return the tokens of a conversation in the model's chat template.

        Raises:
            DecodeError: the server did not answer, or without tokens.
        """
        if self.dialect.server == "vllm":
            return self._vllm_tokens({"messages": [*messages], "add_generation_prompt": True})
        body = {"messages": [*messages]}
        answer = self.client.post(f"{self.dialect.root}/apply-template", body)
        text = read_text(read_object(answer, "prompt").get("prompt"), "prompt")
        return self.tokenize(text, special=True)

    def name_ids(self, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the bytes of tokens, as far as the server says them.

        llama.cpp joins ids to a text. It may split that text into other tokens, which have names as well.

        Raises:
            DecodeError: the server did not answer.
        """
        if self._texts is not None:
            return self._texts.name(ids)
        if self.dialect.server != "llamacpp":
            return {}
        try:
            answer = self.client.post(f"{self.dialect.root}/detokenize", {"tokens": list(ids)})
            text = read_text(read_object(answer, "text").get("content"), "content")
        except (ServerError, TraceError):
            return {}
        return self.tokenize(text, special=True, begin=False).names if text else {}

    def name_answer(self, answer: Answer, start: int = 0) -> int:
        """Add the texts of tokens that the server reported by their ids.

        Args:
            answer: the answer, which is changed.
            start: number of steps of its first text that have their texts.

        Returns:
            The number of steps that have them now.

        Raises:
            DecodeError: the server did not answer.
        """
        if self._texts is None or not answer.choices:
            return start
        steps = answer.choice(0).steps
        names = self._texts.name(unnamed_ids(steps[start:]))
        steps[start:] = [name_step(step, names) for step in steps[start:]]
        return len(steps)

    def join_ids(self, ids: Sequence[int]) -> str:
        """Return the text of successive tokens that have none of their own, as parts of a character.

        Raises:
            DecodeError: the server did not answer.
        """
        return UNKNOWN_TEXT if self._texts is None else self._texts.join(ids)

    def end_ids(self) -> tuple[int, ...]:
        """Return the ids of the token that ends a text; empty if the server does not say it.

        Raises:
            DecodeError: the server did not answer.
        """
        if self.dialect.server != "llamacpp":
            return ()
        try:
            facts = read_object(self.client.get(f"{self.dialect.root}/props"), "props")
            name = read_text(facts.get("eos_token"), "eos_token")
        except (ServerError, TraceError):
            return ()
        found = self.tokenize(name, special=True, begin=False).ids if name else ()
        return found if len(found) == 1 else ()

    def _vllm_tokens(self, asked: Mapping[str, object]) -> PromptTokens:
        body = {"model": self.model, **asked, "return_token_strs": False}
        answer = read_object(self.client.post(f"{self.dialect.root}/tokenize", body), "tokens")
        ids = self._check(read_ids(answer.get("tokens"), "tokens"))
        return PromptTokens(tuple(ids), self.name_ids(ids))

    def _find_vocab_size(self) -> int | None:
        """Return the size that vLLM names when it refuses an id; None if it names none."""
        body = {
            "model": self.model,
            "prompt": [0],
            "max_tokens": 1,
            "logit_bias": {str(LARGEST_SEED): 0},
            # Versions that do not check the bias refuse this, so that no such id reaches the model.
            "allowed_token_ids": [],
        }
        try:
            self.client.post(f"{self.dialect.base}/completions", body)
        except ServerError as error:
            found = _VOCABULARY_SIZE.search(str(error))
            size = int(found[1]) if found else 0
            return size if 0 < size <= LARGEST_VOCABULARY else None
        return None

    def tokenize(self, text: str, *, special: bool, begin: bool = True) -> PromptTokens:
        """Return the tokens of a text on a llama.cpp server.

        Args:
            text: the text.
            special: whether special tokens that it spells are read as such.
            begin: whether the tokens come first that the model begins with.

        Raises:
            DecodeError: the server did not answer, or without tokens.
        """
        body = {
            "content": text,
            "with_pieces": True,
            "parse_special": special,
            "add_special": begin,
        }
        answer = read_object(self.client.post(f"{self.dialect.root}/tokenize", body), "tokens")
        names: dict[int, bytes] = {}
        ids: list[int] = []
        for token in iter_objects(answer.get("tokens"), "tokens"):
            found = read_count(token.get("id"), "id")
            if found is not None:
                ids.append(found)
                names[found] = _piece_bytes(token.get("piece"))
        return PromptTokens(tuple(self._check(ids)), names)

    def _check(self, ids: list[int]) -> list[int]:
        if not ids:
            raise DecodeError(
                "The server at {host} gave no tokens for the prompt.",
                host=self.client.address.netloc,
            )
        return ids


def _models(answer: JsonValue) -> Iterator[JsonObject]:
    try:
        yield from iter_objects(read_object(answer, "data").get("data"), "data")
    except TraceError:
        return


def _owner(model: JsonObject) -> str:
    owner = model.get("owned_by")
    return owner if isinstance(owner, str) else ""


def _piece_bytes(piece: JsonValue) -> bytes:
    """Return the bytes of a piece: a text, or a list of bytes for a part of a character."""
    if isinstance(piece, str):
        return piece.encode(errors="replace")
    return bytes(value for value in read_ids(read_list(piece, "piece"), "piece") if value < 256)
