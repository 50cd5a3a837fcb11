"""Why a ban, a forced token or a list of allowed continuations removed a token."""

from __future__ import annotations

from collections.abc import Callable

import torch

from engine.inspection.removal import (
    Removal,
    RemovalCase,
    quote_tokens,
    removal_until_off,
    token_name,
)
from engine.messages import Message
from engine.number_text import quote_token


def _explain_no_repeat_ngram(case: RemovalCase) -> Removal:
    size = case.processor.ngram_size
    text = case.ids[case.row].tolist()
    gram = [*text[len(text) - size + 1 :], case.token_id]
    why = Message(
        "{name} is banned: it would repeat {phrase}.",
        name=token_name(case),
        phrase=quote_tokens(case, gram),
    )
    return _find_longer_ngram(case, why, "no_repeat_ngram_size", "ngram_size", size)


def _explain_encoder_no_repeat_ngram(case: RemovalCase) -> Removal:
    size = case.processor.ngram_size
    text = case.ids[case.row].tolist()
    gram = [*text[len(text) - size + 1 :], case.token_id]
    why = Message(
        "{name} is banned: it would repeat {phrase} of the prompt.",
        name=token_name(case),
        phrase=quote_tokens(case, gram),
    )
    name, prompt = "encoder_no_repeat_ngram_size", list(case.prompt)
    # The processor reads the prompt in its constructor, so the check is repeated here.
    for value in range(size + 1, 33):
        gram = [*text[len(text) - value + 1 :], case.token_id]
        windows = (prompt[i : i + value] for i in range(len(prompt) - value + 1))
        if len(gram) < value or gram not in windows:
            return Removal(
                why, Message("at {parameter} ≥ {value}", parameter=name, value=value), {name: value}
            )
    return removal_until_off(case, why, name, 0)


def _find_longer_ngram(
    case: RemovalCase, why: str, parameter: str, attribute: str, size: int
) -> Removal:
    """Return the smallest larger n for which the token repeats no n-gram."""
    for value in range(size + 1, 33):
        instead = case.with_value(**{attribute: value})
        if case.is_kept_by(instead):
            survives = Message("at {parameter} ≥ {value}", parameter=parameter, value=value)
            return Removal(why, survives, {parameter: value}, instead)
    return removal_until_off(case, why, parameter, 0)


def _explain_bad_words(case: RemovalCase) -> Removal:
    text, token = case.ids[case.row].tolist(), case.token_id
    entries = [list(entry) for entry in case.config.bad_words_ids]
    hits = [e for e in entries if e[-1] == token and text[len(text) - len(e) + 1 :] == e[:-1]]
    rest = [e for e in entries if e not in hits]
    phrase = quote_tokens(case, hits[0]) if hits else token_name(case)
    why = Message(
        "{name} is banned: {phrase} is one of the banned words.",
        name=token_name(case),
        phrase=phrase,
    )
    instead = None
    if rest:
        from transformers import NoBadWordsLogitsProcessor

        instead = NoBadWordsLogitsProcessor(rest)
    survives = "when that word is not banned"
    return Removal(why, survives, {"bad_words_ids": rest or None}, instead)


def _explain_suppression(case: RemovalCase, parameter: str, why: str) -> Removal:
    rest = [i for i in getattr(case.config, parameter) if i != case.token_id]
    ids = torch.tensor(rest, device=case.before.device, dtype=torch.long)
    return Removal(
        why,
        Message("without its id in {parameter}", parameter=parameter),
        {parameter: rest or None},
        # The two classes name this attribute differently; the unused one is ignored.
        case.with_value(suppress_tokens=ids, begin_suppress_tokens=ids) if rest else None,
    )


def _explain_suppress_tokens(case: RemovalCase) -> Removal:
    return _explain_suppression(
        case,
        "suppress_tokens",
        Message("{name} is one of the suppressed ids.", name=token_name(case)),
    )


def _explain_begin_suppress_tokens(case: RemovalCase) -> Removal:
    why = Message("{name} is one of the ids that may not come first.", name=token_name(case))
    return _explain_suppression(case, "begin_suppress_tokens", why)


def _explain_min_length(case: RemovalCase) -> Removal:
    least = case.config.min_new_tokens
    why = Message(
        "{name} would end the text after {new} tokens, and min_new_tokens = {least} forbids that.",
        name=token_name(case),
        new=case.new,
        least=least,
    )
    return Removal(
        why,
        Message("at min_new_tokens ≤ {value}", value=case.new),
        {"min_new_tokens": case.new or None},
    )


def _explain_prefix_constraint(case: RemovalCase) -> Removal:
    allowed = case.config.prefix_allowed_tokens_fn
    text = case.ids[case.row].tolist()
    new = text[len(text) - case.new :] if case.new else []
    why = Message("{name} would leave the allowed continuations.", name=token_name(case))
    # A function has no list of continuations to add the text to.
    if callable(allowed):
        return removal_until_off(case, why, "prefix_allowed_tokens_fn", None)
    entries = [*(list(entry) for entry in allowed), [*new, case.token_id]]
    survives = "when the text with it is an allowed continuation, too"
    return Removal(why, survives, {"prefix_allowed_tokens_fn": entries})


def _explain_forced_bos(case: RemovalCase) -> Removal:
    forced = case.processor.bos_token_id
    why = Message("The first token is forced to be {piece}.", piece=quote_token(case.piece(forced)))
    return removal_until_off(case, why, "forced_bos_token_id", None)


def _explain_forced_eos(case: RemovalCase) -> Removal:
    first = int(case.processor.eos_token_id.flatten()[0])
    why = Message("The last token is forced to be {piece}.", piece=quote_token(case.piece(first)))
    return removal_until_off(case, why, "forced_eos_token_id", None)


BAN_EXPLAINERS: dict[str, Callable[[RemovalCase], Removal]] = {
    "NoRepeatNGramLogitsProcessor": _explain_no_repeat_ngram,
    "EncoderNoRepeatNGramLogitsProcessor": _explain_encoder_no_repeat_ngram,
    "NoBadWordsLogitsProcessor": _explain_bad_words,
    "SuppressTokensLogitsProcessor": _explain_suppress_tokens,
    "SuppressTokensAtBeginLogitsProcessor": _explain_begin_suppress_tokens,
    "MinNewTokensLengthLogitsProcessor": _explain_min_length,
    "MinLengthLogitsProcessor": _explain_min_length,
    "PrefixConstrainedLogitsProcessor": _explain_prefix_constraint,
    "ForcedBOSTokenLogitsProcessor": _explain_forced_bos,
    "ForcedEOSTokenLogitsProcessor": _explain_forced_eos,
}
"""Class of a processor -> what explains its removals."""
