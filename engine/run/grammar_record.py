"""The record of a finished text under its grammar, token by token: see ``GrammarText``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from engine.grammar.compile import make_byte_matcher, next_bytes
from engine.grammar.microscope import refusal_after
from engine.loops.recorder import round_decimals, round_significant
from engine.models.text import encode_inside
from engine.processors.grammar import FILTER
from engine.trace.details import BeamDetail, DraftDetail
from engine.trace.records import (
    GrammarText,
    GrammarToken,
    Step,
    chosen_emit_index,
    chosen_token_id,
)

if TYPE_CHECKING:
    from llguidance import LLMatcher

    from engine.grammar.processor import GrammarLogitsProcessor
    from engine.run.preparation import Prepared


def record_grammar(
    run: Prepared, steps: Sequence[Step], texts: Sequence[Sequence[int]]
) -> tuple[GrammarText, ...]:
    """Return what the grammar of a run did to its texts; nothing without a grammar.

    Args:
        run: the prepared run.
        steps: all steps.
        texts: new ids of every output.
    """
    continued = run.continued_ids
    return tuple(
        _record_text(
            processor,
            continued,
            ids,
            _deciding_steps([step for step in steps if step.sequence == sequence], ids),
            _odd_splits(run, processor, [*continued, *ids])[len(continued) :],
        )
        for processor in run.grammars
        for sequence, ids in enumerate(texts)
    )


def _record_text(
    processor: GrammarLogitsProcessor,
    continued: Sequence[int],
    ids: Sequence[int],
    steps: Sequence[Step | None],
    odd: Sequence[bool],
) -> GrammarText:
    pieces, matcher = processor.table.tokens, make_byte_matcher(processor.grammar)
    for token_id in continued:
        matcher.consume_tokens(list(pieces[token_id]))
    tokens: list[GrammarToken] = []
    for token_id, step, split in zip(ids, steps, odd, strict=True):
        tokens.append(_record_token(processor, matcher, token_id, step, odd=split))
        # After an end token the matcher has nothing to read; a refused token leaves it unusable.
        if token_id in processor.eos or not matcher.consume_tokens(list(pieces[token_id])):
            break
    # A text that has left its grammar may only end; nothing is known of the rest.
    tokens += [GrammarToken()] * (len(ids) - len(tokens))
    known = {at: token.allowed for at, token in enumerate(tokens) if token.allowed}
    return GrammarText(
        tuple(tokens),
        len(known),
        round_decimals(math.fsum(math.log(allowed) for allowed in known.values())),
        min(known, key=lambda at: known[at], default=None),
    )


def _record_token(
    processor: GrammarLogitsProcessor,
    matcher: LLMatcher,
    token_id: int,
    step: Step | None,
    *,
    odd: bool,
) -> GrammarToken:
    """Return the record of one token, with the matcher over single bytes that has read the text before it."""
    may_end = bool(matcher.is_accepting())
    forced = (
        may_end and not next_bytes(matcher).any()
        if token_id in processor.eos
        # llguidance's fast-forward bytes are those about which the grammar leaves no choice.
        else matcher.compute_ff_bytes().startswith(processor.table.tokens[token_id])
    )
    allowed, wanted, share, fits, expected = None, None, None, "", ""
    if step is not None:
        # Later than the first stage, the probability would be that of what other filters left.
        [*first] = step.stages[:1]
        # 0 has no logarithm: a grammar that allows only impossible tokens counts as unknown.
        allowed = (first[0].kept_mass or None) if first and first[0].name == FILTER.name else None
        best = next((one for one in step.candidates if one.rank == 0), None)
        if best is not None and best.removed_by == FILTER.name:
            wanted, share = best.token_id, round_significant(math.exp(best.raw_logprob))
            if wanted not in processor.table.special_token_ids:
                found = refusal_after(matcher.deep_copy(), processor.table.tokens[wanted])
                fits, expected = found.fits, found.expected
    return GrammarToken(allowed, wanted, share, fits, expected, forced, may_end, odd)


def _deciding_steps(steps: Sequence[Step], ids: Sequence[int]) -> list[Step | None]:
    """Return for every token the step whose candidates and stages describe its place, or None."""
    found: list[Step | None] = []
    for step in steps:
        found[step.keep :] = [None] * len(step.emit)
        at = chosen_emit_index(step)
        # A beam search records the place of its leading text only, which another text may overtake.
        ended = isinstance(step.detail, DraftDetail) and step.detail.final_source == "ended"
        if at >= 0 and not ended and not isinstance(step.detail, BeamDetail):
            found[step.keep + at] = step
    found += [None] * (len(ids) - len(found))
    return [
        step if step is not None and chosen_token_id(step) == token_id else None
        for step, token_id in zip(found, ids, strict=False)
    ]


def _odd_splits(run: Prepared, processor: GrammarLogitsProcessor, ids: Sequence[int]) -> list[bool]:
    """Return for every token whether the tokenizer, given the whole text, cuts it otherwise there."""
    assert run.target.tokenizer is not None  # a grammar is refused without one
    pieces, silent = processor.table.tokens, set(processor.table.special_token_ids)
    lengths = [0 if i in silent else len(pieces[i]) for i in ids]
    try:
        text = b"".join(pieces[i] for i in ids if i not in silent).decode()
    except UnicodeDecodeError:  # cut within a character
        return [False] * len(ids)
    own = encode_inside(run.target.tokenizer, text)
    if b"".join(pieces[i] for i in own) != text.encode():
        return [False] * len(ids)
    # Ends of tokens in bytes, in the tokenizer's own way to cut the text.
    cuts = {0, *accumulate(len(pieces[i]) for i in own)}
    ends = list(accumulate(lengths))
    return [
        bool(length) and not {end - length, end} <= cuts
        for end, length in zip(ends, lengths, strict=True)
    ]
