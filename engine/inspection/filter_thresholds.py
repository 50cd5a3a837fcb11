"""Why a filter removed a token, and the parameter value that would have let it through.

The value follows from each processor's definition and is verified on the processor itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from engine.inspection.explanation import at_least, at_most, number, percent, plain, quoted, share
from engine.inspection.filter_chain import is_gone


@dataclass(frozen=True)
class Case:
    """A processor that removed a token, with its input.

    Attributes:
        processor: a copy with the state it had before the pass.
        ids: (rows, length) ids so far.
        before: (rows, vocab) scores it received.
        row: the row in question.
        token_id: the removed token.
        new: number of new tokens before this one.
        config: the run's config.
        piece: returns the text of a token.
        prompt: ids of the prompt, for processors that read only those.
    """

    processor: Any
    ids: torch.Tensor
    before: torch.Tensor
    row: int
    token_id: int
    new: int
    config: Any
    piece: Callable[[int], str]
    prompt: Sequence[int] = ()

    @property
    def scores(self) -> torch.Tensor:
        """(vocab,) scores it received."""
        return self.before[self.row]

    @property
    def probs(self) -> torch.Tensor:
        """(vocab,) probabilities before the processor."""
        return torch.softmax(self.scores, -1)

    @property
    def p(self) -> float:
        """The token's probability before the processor."""
        return float(self.probs[self.token_id])

    def passes(self, processor: Any) -> bool:
        """Return True if the token survives this processor instead."""
        after = processor(self.ids, self.before.clone())
        return not is_gone(after, self.row, self.token_id)

    def with_value(self, **values: Any) -> Any:
        """Return a copy of the processor with other attribute values."""
        other = copy.copy(self.processor)
        for name, value in values.items():
            setattr(other, name, value)
        return other


@dataclass(frozen=True)
class Removal:
    """Why a processor removed a token, and what would have let it through.

    Attributes:
        why: a complete sentence.
        survives: the condition of survival, as the end of a sentence; "" if there is none.
        changes: parameter -> value.
        instead: the processor with that value; None if it would be absent.
        facts: (name, value, meaning) of each number.
    """

    why: str
    survives: str = ""
    changes: dict[str, Any] = field(default_factory=dict)
    instead: Any = None
    facts: tuple[tuple[str, str, str], ...] = ()


def removal(case: Case) -> Removal:
    """Return why a processor removed a token."""
    name = type(case.processor).__name__
    tell = _TELLERS.get(name)
    if tell is not None:
        return tell(case)
    return Removal(f"{name} makes {quoted(case.piece(case.token_id))} impossible here.")


def _off(case: Case, why: str, parameter: str, value: Any, facts: Any = ()) -> Removal:
    """Return a removal that only ends when the parameter is switched off."""
    off = "off" if value is None else plain(value)
    survives = f"with {parameter} {'off' if off in ('off', '0', '1') else '= ' + off}"
    return Removal(why, survives, {parameter: value}, None, tuple(facts))


def _top_k(case: Case) -> Removal:
    place = int((case.scores > case.scores[case.token_id]).sum()) + 1
    kept = case.processor.top_k
    why = f"Top-k removed {_name(case)}: it is number {place:,}, and only the first {kept:,} stay."
    facts = (("Place at top-k", f"{place:,}", f"Counted where top-k looked; {kept:,} are kept."),)
    return Removal(
        why, f"at top_k ≥ {place}", {"top_k": place}, case.with_value(top_k=place), facts
    )


def _top_p(case: Case) -> Removal:
    order = torch.sort(case.scores, descending=False)
    mass = order.values.softmax(-1).cumsum(-1)
    at = int((order.indices == case.token_id).nonzero())
    before = 1 - float(mass[at])
    given = case.processor.top_p
    why = (
        f"Top-p removed {_name(case)}: the tokens before it already hold {share(before)} of the "
        f"probability, and top_p = {plain(given)} asks for no more."
    )
    facts = (("Held before it", share(before), "Top-p keeps tokens until this reaches top_p."),)
    value = at_least(before, lambda v: case.passes(case.with_value(top_p=v)), 1.0)
    if value is None:
        return _off(case, why, "top_p", 1.0, facts)
    return Removal(
        why, f"at top_p ≥ {plain(value)}", {"top_p": value}, case.with_value(top_p=value), facts
    )


def _min_p(case: Case) -> Removal:
    top = float(case.probs.max())
    ratio = case.p / top
    given = float(case.processor.min_p)
    why = (
        f"Min-p removed {_name(case)}: with {percent(case.p)} it has {share(ratio)} of the best "
        f"token's probability, and min_p = {plain(given)} asks for more."
    )
    facts = (("Share of the best", share(ratio), "Its probability over that of the best token."),)
    value = at_most(ratio, lambda v: case.passes(case.with_value(min_p=v)), 0.0)
    if value is None:
        return _off(case, why, "min_p", None, facts)
    return Removal(
        why, f"at min_p ≤ {plain(value)}", {"min_p": value}, case.with_value(min_p=value), facts
    )


def _top_h(case: Case) -> Removal:
    warper = case.processor
    top = case.scores.topk(min(warper.top_n, len(case.scores)))
    found = (top.indices == case.token_id).nonzero()
    given = plain(float(warper.top_h))
    if not len(found):
        why = f"Top-h removed {_name(case)}: it looks at the {warper.top_n} best tokens only."
        return _off(case, why, "top_h", None)
    dist = torch.distributions.Categorical(logits=top.values)
    terms = (-dist.probs * torch.log(dist.probs)).cumsum(-1)
    part = float(terms[int(found[0])] / dist.entropy())
    told = share(part)
    why = (
        f"Top-h removed {_name(case)}: the tokens down to it hold {told} of the entropy, "
        f"and top_h = {given} allows no more."
    )
    facts = (("Entropy down to it", told, "Share of the entropy of the best tokens."),)
    value = at_least(part, lambda v: case.passes(case.with_value(top_h=v)), 1.0)
    if value is None:
        return _off(case, why, "top_h", None, facts)
    return Removal(
        why, f"at top_h ≥ {plain(value)}", {"top_h": value}, case.with_value(top_h=value), facts
    )


def _typical(case: Case) -> Removal:
    logprobs = torch.log_softmax(case.scores, -1)
    entropy = -(logprobs * logprobs.exp()).nansum()
    off = (-logprobs - entropy).abs()
    order = off.sort()
    mass = case.scores[order.indices].softmax(-1).cumsum(-1)
    at = int((order.indices == case.token_id).nonzero())
    before = float(mass[at - 1]) if at else 0.0
    why = (
        f"Typical-p removed {_name(case)}: its surprise is {number(float(off[case.token_id] / _LN2))} "
        f"bits away from the expected one, and the tokens that are nearer already hold "
        f"{share(before)} of the probability."
    )
    facts = (("Held by more typical ones", share(before), "Typical-p stops when this reaches it."),)
    value = at_least(before, lambda v: case.passes(case.with_value(mass=v)), 1.0)
    if value is None:
        return _off(case, why, "typical_p", 1.0, facts)
    changes, instead = {"typical_p": value}, case.with_value(mass=value)
    return Removal(why, f"at typical_p ≥ {plain(value)}", changes, instead, facts)


def _epsilon(case: Case) -> Removal:
    given = float(case.processor.epsilon)
    why = (
        f"The epsilon cutoff removed {_name(case)}: it has {percent(case.p)}, "
        f"and {share(given)} is the least."
    )
    value = at_most(case.p, lambda v: case.passes(case.with_value(epsilon=v)), 0.0)
    if value is None:
        return _off(case, why, "epsilon_cutoff", 0.0)
    changes, instead = {"epsilon_cutoff": value}, case.with_value(epsilon=value)
    return Removal(why, f"at epsilon_cutoff ≤ {plain(value)}", changes, instead)


def _eta(case: Case) -> Removal:
    warper = case.processor
    entropy = torch.distributions.Categorical(logits=case.scores).entropy()
    least = float(torch.min(warper.epsilon, torch.sqrt(warper.epsilon) * torch.exp(-entropy)))
    why = (
        f"The eta cutoff removed {_name(case)}: it has {percent(case.p)}, "
        f"and with this entropy {percent(least)} is the least."
    )
    facts = (("Least probability", percent(least), "What eta_cutoff makes of this entropy."),)
    # The cutoff is min(epsilon, sqrt(epsilon) * exp(-entropy)); this solves it for epsilon.
    bound = max(case.p, (case.p * float(entropy.exp())) ** 2)

    def other(value: float) -> Any:
        return case.with_value(epsilon=torch.tensor(value, device=case.before.device))

    value = at_most(bound, lambda v: case.passes(other(v)), 0.0)
    if value is None:
        return _off(case, why, "eta_cutoff", 0.0, facts)
    return Removal(
        why, f"at eta_cutoff ≤ {plain(value)}", {"eta_cutoff": value}, other(value), facts
    )


def _no_repeat(case: Case) -> Removal:
    size = case.processor.ngram_size
    text = case.ids[case.row].tolist()
    gram = [*text[len(text) - size + 1 :], case.token_id]
    why = f"{_name(case)} is banned: it would repeat {_phrase(case, gram)}."
    return _longer(case, why, "no_repeat_ngram_size", "ngram_size", size)


def _encoder_no_repeat(case: Case) -> Removal:
    size = case.processor.ngram_size
    text = case.ids[case.row].tolist()
    gram = [*text[len(text) - size + 1 :], case.token_id]
    why = f"{_name(case)} is banned: it would repeat {_phrase(case, gram)} of the prompt."
    name, prompt = "encoder_no_repeat_ngram_size", list(case.prompt)
    # The processor reads the prompt in its constructor, so the check is repeated here.
    for value in range(size + 1, 33):
        gram = [*text[len(text) - value + 1 :], case.token_id]
        windows = (prompt[i : i + value] for i in range(len(prompt) - value + 1))
        if len(gram) < value or gram not in windows:
            return Removal(why, f"at {name} ≥ {value}", {name: value})
    return _off(case, why, name, 0)


def _longer(case: Case, why: str, parameter: str, attribute: str, size: int) -> Removal:
    """Return the smallest larger n for which the token repeats no n-gram."""
    for value in range(size + 1, 33):
        instead = case.with_value(**{attribute: value})
        if case.passes(instead):
            return Removal(why, f"at {parameter} ≥ {value}", {parameter: value}, instead)
    return _off(case, why, parameter, 0)


def _bad_words(case: Case) -> Removal:
    text, token = case.ids[case.row].tolist(), case.token_id
    entries = [list(entry) for entry in case.config.bad_words_ids]
    hits = [e for e in entries if e[-1] == token and text[len(text) - len(e) + 1 :] == e[:-1]]
    rest = [e for e in entries if e not in hits]
    phrase = _phrase(case, hits[0]) if hits else _name(case)
    why = f"{_name(case)} is banned: {phrase} is one of the banned words."
    instead = None
    if rest:
        from transformers import NoBadWordsLogitsProcessor

        instead = NoBadWordsLogitsProcessor(rest)
    survives = "when that word is not banned"
    return Removal(why, survives, {"bad_words_ids": rest or None}, instead)


def _suppress(case: Case, parameter: str, why: str) -> Removal:
    rest = [i for i in getattr(case.config, parameter) if i != case.token_id]
    ids = torch.tensor(rest, device=case.before.device, dtype=torch.long)
    return Removal(
        why,
        f"without its id in {parameter}",
        {parameter: rest or None},
        # The two classes name this attribute differently; the unused one is ignored.
        case.with_value(suppress_tokens=ids, begin_suppress_tokens=ids) if rest else None,
    )


def _suppressed(case: Case) -> Removal:
    return _suppress(case, "suppress_tokens", f"{_name(case)} is one of the suppressed ids.")


def _suppressed_first(case: Case) -> Removal:
    why = f"{_name(case)} is one of the ids that may not come first."
    return _suppress(case, "begin_suppress_tokens", why)


def _too_short(case: Case) -> Removal:
    least = case.config.min_new_tokens
    why = (
        f"{_name(case)} would end the text after {case.new} tokens, and min_new_tokens = {least} "
        "forbids that."
    )
    return Removal(why, f"at min_new_tokens ≤ {case.new}", {"min_new_tokens": case.new or None})


def _allowed(case: Case) -> Removal:
    allowed = case.config.prefix_allowed_tokens_fn
    text = case.ids[case.row].tolist()
    new = text[len(text) - case.new :] if case.new else []
    why = f"{_name(case)} would leave the allowed continuations."
    # A function has no list of continuations to add the text to.
    if callable(allowed):
        return _off(case, why, "prefix_allowed_tokens_fn", None)
    entries = [*(list(entry) for entry in allowed), [*new, case.token_id]]
    survives = "when the text with it is an allowed continuation, too"
    return Removal(why, survives, {"prefix_allowed_tokens_fn": entries})


def _forced_first(case: Case) -> Removal:
    forced = case.processor.bos_token_id
    why = f"The first token is forced to be {quoted(case.piece(forced))}."
    return _off(case, why, "forced_bos_token_id", None)


def _forced_last(case: Case) -> Removal:
    first = int(case.processor.eos_token_id.flatten()[0])
    why = f"The last token is forced to be {quoted(case.piece(first))}."
    return _off(case, why, "forced_eos_token_id", None)


def _contrast(case: Case) -> Removal:
    """Explain DoLa's plausibility cut; its input is the last layer's logits."""
    from engine.loops.dola import RELATIVE_TOP

    top = float(case.probs.max())
    part = case.p / top
    why = (
        f"DoLa removed {_name(case)} before the contrast: the last layer gives it {percent(case.p)}, "
        f"less than a tenth of the {percent(top)} of its favourite."
    )
    facts = (
        (
            "Share of the favourite",
            share(part),
            f"DoLa contrasts tokens of at least {plain(RELATIVE_TOP)}.",
        ),
    )
    value = at_most(part, lambda v: v <= part * (1 - 1e-6), 0.0)
    if value is None:
        return Removal(why, facts=facts)
    return Removal(
        why,
        f"where {plain(value)} of the favourite's probability would do",
        {"relative_top": value},
        LEAVE,
        facts,
    )


LEAVE = object()
"""Marks a removal whose change cannot be tried on a processor."""
_LN2 = 0.6931471805599453


def _name(case: Case) -> str:
    return quoted(case.piece(case.token_id))


def _phrase(case: Case, ids: Sequence[int]) -> str:
    return quoted("".join(case.piece(token_id) for token_id in ids))


_TELLERS: dict[str, Callable[[Case], Removal]] = {
    "TopKLogitsWarper": _top_k,
    "TopPLogitsWarper": _top_p,
    "MinPLogitsWarper": _min_p,
    "TopHLogitsWarper": _top_h,
    "TypicalLogitsWarper": _typical,
    "EpsilonLogitsWarper": _epsilon,
    "EtaLogitsWarper": _eta,
    "NoRepeatNGramLogitsProcessor": _no_repeat,
    "EncoderNoRepeatNGramLogitsProcessor": _encoder_no_repeat,
    "NoBadWordsLogitsProcessor": _bad_words,
    "SuppressTokensLogitsProcessor": _suppressed,
    "SuppressTokensAtBeginLogitsProcessor": _suppressed_first,
    "MinNewTokensLengthLogitsProcessor": _too_short,
    "MinLengthLogitsProcessor": _too_short,
    "PrefixConstrainedLogitsProcessor": _allowed,
    "ForcedBOSTokenLogitsProcessor": _forced_first,
    "ForcedEOSTokenLogitsProcessor": _forced_last,
    "LayerContrast": _contrast,
}
