"""What a strategy must give where the sums of a pass depend on all that it reads: the passes of transformers' own.

In few bits the same text has other sums when it is read anew, or with a draft: what is expected
keeps a cache and drafts as the run does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers import DynamicCache
from transformers.generation import candidate_generator

from engine.models.loading import LoadedModel
from tests.helpers.models import native
from tests.helpers.references import (
    THRESHOLD,
    K,
    diverse,
    expected,
    most_contrasted,
    most_promising,
    params_of,
)

_UNIVERSAL = candidate_generator.AssistedCandidateGeneratorDifferentTokenizers
_DRAFTS = ("speculative", "prompt_lookup", "early_exit", "universal_assisted")


def expected_by_passes(
    strategy: str,
    loaded: LoadedModel,
    ids: list[int],
    new: int,
    seed: int,
    assistant: LoadedModel | None,
) -> list[list[int]]:
    """Return the new tokens of every sequence of a decoder, pass by pass as transformers makes them.

    Args:
        strategy: a name of STRATEGIES.
        loaded: the model.
        ids: the prompt.
        new: most new tokens.
        seed: of what is drawn.
        assistant: the draft model, for strategies that take one.
    """
    if strategy == "contrastive_search":
        return [_contrastive(loaded, ids, new)]
    if strategy == "dola":
        return [_dola(loaded, ids, new)]
    if strategy == "diverse_beam_search":
        return diverse(loaded, ids, {"max_new_tokens": new, "pad_token_id": 0, "use_cache": True})
    if strategy in _DRAFTS:
        return _drafted(strategy, loaded, ids, new, assistant)
    return expected(strategy, loaded, ids, new, seed, use_cache=True)


def _drafted(
    strategy: str, loaded: LoadedModel, ids: list[int], new: int, assistant: LoadedModel | None
) -> list[list[int]]:
    """Return what generate() writes when it drafts, too."""
    params = params_of(strategy)
    kwargs: dict[str, Any] = {
        name: params[name]
        for name in ("assistant_early_exit", "prompt_lookup_num_tokens")
        if name in params
    }
    if assistant is not None:
        kwargs["assistant_model"] = assistant.model
    if strategy == "universal_assisted":
        assert assistant is not None
        kwargs |= {"tokenizer": loaded.tokenizer, "assistant_tokenizer": assistant.tokenizer}
    drafts = {"num_assistant_tokens": 3, "num_assistant_tokens_schedule": "constant", **THRESHOLD}
    with _settings((assistant or loaded).model.generation_config, drafts):
        limits = {"max_new_tokens": new, "pad_token_id": 0, "do_sample": False}
        return native(loaded, ids, **limits, **kwargs)


@contextmanager
def _settings(config: Any, drafts: dict[str, Any]) -> Iterator[None]:
    """Set what is drafted where 5.23 reads it, and let another tokenizer's draft read what stands."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in drafts.items():
            patch.setattr(config, name, value)
        patch.setattr(_UNIVERSAL, "_prepare_assistant_input_ids", _encoded_anew)
        patch.setattr(_UNIVERSAL, "convert_source_tokens_to_target_tokens", _converted)
        yield


def _encoded_anew(self: Any, input_ids: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return the text in the draft's ids; 5.23 mends its last ones, and a cache that fits them not.

    It also takes the id that ends the target's text for the one that ends the draft's.
    """
    self.assistant_kwargs.pop("past_key_values", None)
    self.generation_config.eos_token_id = self.assistant_tokenizer.eos_token_id
    tokenizers = self.target_tokenizer, self.assistant_tokenizer
    return _converted(self, input_ids, *tokenizers), 0


def _converted(
    self: Any, ids: torch.Tensor, source_tokenizer: Any, destination_tokenizer: Any
) -> Any:
    """Return other ids of the very text: 5.23 drops spaces before punctuation."""
    del self
    text = source_tokenizer.decode(
        ids[0], skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    return destination_tokenizer(text, return_tensors="pt")["input_ids"]


@torch.no_grad()
def _contrastive(loaded: LoadedModel, ids: list[int], new: int) -> list[int]:
    text: list[int] = []
    cache = DynamicCache(config=loaded.model.config)
    logits, states = _read(loaded, torch.tensor([ids]), cache)
    context = states[-1][0]
    while len(text) < new:
        probs, tokens = logits[0, -1].float().softmax(-1).topk(K)
        cache.batch_repeat_interleave(K)
        logits, states = _read(loaded, tokens[:, None], cache)
        own = states[-1][:, -1]
        best = most_promising(probs, context, own)
        cache.batch_select_indices(torch.tensor([best]))
        logits, context = logits[best : best + 1], torch.cat([context, own[best : best + 1]])
        text.append(int(tokens[best]))
        if text[-1] in loaded.eos_token_ids:
            break
    return text


@torch.no_grad()
def _dola(loaded: LoadedModel, ids: list[int], new: int) -> list[int]:
    text: list[int] = []
    cache = DynamicCache(config=loaded.model.config)
    given = torch.tensor([ids])
    while len(text) < new:
        logits, states = _read(loaded, given, cache)
        text.append(
            most_contrasted(loaded, logits[0, -1].float(), [state[0, -1] for state in states])
        )
        given = torch.tensor([text[-1:]])
        if text[-1] in loaded.eos_token_ids:
            break
    return text


def _read(loaded: LoadedModel, ids: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
    """Return (rows, places, vocab) logits and every layer's states of what is new."""
    out = loaded.model(
        input_ids=ids, past_key_values=cache, use_cache=True, output_hidden_states=True
    )
    return out.logits, out.hidden_states
