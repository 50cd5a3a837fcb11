"""The texts of ids that vLLM's /detokenize gives, with tokenizers of three kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.endpoints.http_client import EndpointClient
from engine.endpoints.server_lookup import ModelServer
from engine.sources.endpoint_address import EndpointAddress
from tests.helpers.tokenizers import make_sentencepiece, make_tokenizer
from tests.helpers.vllm_server import Vllm

BYTE = re.compile("<0x([0-9A-F]{2})>")


@contextmanager
def served(tokenizer: Any) -> Iterator[ModelServer]:
    """Yield a model server with a tokenizer."""
    vllm = Vllm(
        words=[""] * len(tokenizer),
        split=lambda text: tokenizer(text, add_special_tokens=False)["input_ids"],
        join=tokenizer.decode,
    )
    with vllm.serve() as server, EndpointClient(EndpointAddress.parse(server.base)) as client:
        yield ModelServer(client, "m")


def test_tokens_with_spaces_and_single_bytes_as_llama_2_has_them() -> None:
    tokenizer = make_sentencepiece()
    pieces = tokenizer.convert_ids_to_tokens([*range(len(tokenizer))])
    letters = {i: bytes.fromhex(m[1]) for i, p in enumerate(pieces) if (m := BYTE.fullmatch(p))}
    with served(tokenizer) as server:
        found = server.name_ids([*range(len(tokenizer))])
        llama = [i for byte in "🦙".encode() for i, raw in letters.items() if raw == bytes([byte])]
        assert server.join_ids(llama) == "🦙"
        assert server.join_ids(llama[:2]) == "\ufffd\ufffd"
    for token_id, piece in enumerate(pieces):
        if token_id in letters:
            whole = letters[token_id] < b"\x80"
            assert found.get(token_id) == (letters[token_id] if whole else None)
        else:
            assert found[token_id].decode() == piece.replace("▁", " ")


def test_tokens_of_a_byte_level_tokenizer() -> None:
    tokenizer = make_tokenizer(300)
    with served(tokenizer) as server:
        found = server.name_ids([*range(len(tokenizer))])
        ids = tokenizer(" a 🦙 bear")["input_ids"]
        assert server.join_ids(ids) == " a 🦙 bear"
    alone = {i: tokenizer.decode([i]) for i in range(len(tokenizer))}
    assert found == {i: text.encode() for i, text in alone.items() if "\ufffd" not in text}
    assert 100 < len(found) < len(alone)


def test_a_tokenizer_without_the_separators_characters_gives_no_ids() -> None:
    with served(make_tokenizer(200)) as server:
        assert server.dialect.lists_ids is False
        assert server.name_ids([5]) == {}
        assert server.join_ids([5]) == "\ufffd"
