"""Validation of step details: ids, probabilities, indices and counts."""

from __future__ import annotations

from collections.abc import Mapping

from engine.errors import TraceError
from engine.messages import Message
from engine.trace.details import (
    FATES,
    STATUSES,
    BeamDetail,
    ContrastiveDetail,
    Detail,
    DraftDetail,
    LayerDetail,
    WatermarkDetail,
)
from engine.trace.fill_checks import check_filling
from engine.trace.forward_checks import check_forwards
from engine.trace.records import Step, Trace
from engine.trace.value_types import LOGPROB, PROBABILITY, SECONDS, TOKEN_ID, iter_values

_TOLERANCE = 1e-3


def check_detail(where: str, detail: Detail | None, pieces: Mapping[int, str]) -> None:
    """Check one step's detail, None included.

    Args:
        where: name of the step, for errors.
        detail: an instance of a detail class, or None.
        pieces: token id -> piece, of the trace.

    Raises:
        TraceError: a value is invalid; the message names step and field.
    """
    for name, value in iter_values(detail, PROBABILITY):
        if not 0 <= value <= 1 + _TOLERANCE:
            raise TraceError(
                "{where} has a {name} of {value}, which is no probability.",
                where=where,
                name=name,
                value=f"{value:g}",
            )
    for _, token_id in iter_values(detail, TOKEN_ID):
        if token_id not in pieces:
            raise TraceError(
                "{where} detail: token id {id} has no entry in pieces.", where=where, id=token_id
            )
    if any(value < 0 for _, value in iter_values(detail, SECONDS)):
        raise TraceError("{where} has a negative time.", where=where)
    if isinstance(detail, ContrastiveDetail) and not 0 <= detail.chosen < len(detail.options):
        raise TraceError(
            "{where} chose candidate {n} of {total}.",
            where=where,
            n=detail.chosen,
            total=len(detail.options),
        )
    if isinstance(detail, BeamDetail):
        _check_pool(where, detail)
    if isinstance(detail, DraftDetail):
        _check_draft(where, detail)


def _check_draft(where: str, detail: DraftDetail) -> None:
    for token in (*detail.tokens, *detail.tree):
        _check_known_value(where, "status", token.status, STATUSES)
    for n, node in enumerate(detail.tree):
        # Parents come first, so that every branch begins at the text.
        if node.parent is not None and not 0 <= node.parent < n:
            raise TraceError("{where} has the guess {n} before its parent.", where=where, n=n)


def _check_pool(where: str, detail: BeamDetail) -> None:
    node_ids: set[int] = set()
    for node in detail.pool:
        _check_known_value(where, "fate", node.fate, FATES)
        if node.node_id in node_ids:
            raise TraceError("{where} has the node {id} twice.", where=where, id=node.node_id)
        # Parents have smaller ids, so the links have no cycle, and walking up from a node ends.
        if not -1 <= node.parent_id < node.node_id:
            raise TraceError(
                "{where} has the node {id} before its parent.", where=where, id=node.node_id
            )
        node_ids.add(node.node_id)


def _check_known_value(where: str, name: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise TraceError(
            "{where} has a {name} {word} that means nothing here.",
            where=where,
            name=name,
            word=repr(word[:40]),
        )


def check_details(trace: Trace) -> None:
    """Check the details of a run against each other: sizes, positions, passes, statistics.

    Raises:
        TraceError: a check fails; the message names the step.
    """
    check_forwards(trace)
    check_filling(trace)
    lengths: dict[int, int] = {}
    prompt = 0 if trace.model.is_encoder_decoder else len(trace.prompt_ids)
    depths = {len(detail.layers) for _, detail in trace.details(LayerDetail)}
    for step in trace.steps:
        where, detail = Message("Step {step}", step=step.index), step.detail
        written = lengths.get(step.sequence, 0)
        lengths[step.sequence] = step.keep + len(step.emit)
        if isinstance(detail, ContrastiveDetail):
            # Positions count from the first output token there, and -1 is the decoder start token.
            first = -1 if trace.model.is_encoder_decoder else 0
            _check_positions(where, detail, first, prompt + written)
        elif isinstance(detail, LayerDetail):
            _check_layers(where, detail, depths)
        elif isinstance(detail, DraftDetail):
            _check_report(where, detail)
        elif isinstance(detail, WatermarkDetail):
            _check_watermark(where, step, detail)


def _check_positions(where: str, detail: ContrastiveDetail, first: int, end: int) -> None:
    for option in detail.options:
        if not first <= option.position < end:
            raise TraceError(
                "{where} compares with position {n} of {end}.",
                where=where,
                n=option.position,
                end=end,
            )


def _check_layers(where: str, detail: LayerDetail, depths: set[int]) -> None:
    count = len(detail.layers)
    if count < 2 or len(depths) != 1:
        raise TraceError(
            "{where} has {n} layers; every step must have the same two or more.",
            where=where,
            n=count,
        )
    if [reading.layer for reading in detail.layers] != list(range(count)):
        raise TraceError("{where} has layers that do not count 0, 1, 2, ….", where=where)
    if not (detail.final_top and detail.contrast_top):
        raise TraceError("{where} does not say which tokens were the most probable.", where=where)
    if any(value > _TOLERANCE for _, value in iter_values(detail, LOGPROB)):
        raise TraceError("{where} has a layer with a probability above 1.", where=where)
    for layer in (detail.premature_layer, *detail.candidate_layers):
        if not 0 <= layer < count:
            raise TraceError(
                "{where} contrasts layer {layer} of {n}.", where=where, layer=layer, n=count
            )


def _check_report(where: str, detail: DraftDetail) -> None:
    report = detail.report
    if report is None:
        return
    if report.plain_tokens < 0 or (report.plain_tokens and report.plain_s <= 0):
        raise TraceError(
            "{where} has a plain run of {n} tokens in no time.", where=where, n=report.plain_tokens
        )
    if report.others is not None and report.others < 0:
        raise TraceError(
            "{where} was timed while {n} other runs were active.", where=where, n=report.others
        )


def _check_watermark(where: str, step: Step, detail: WatermarkDetail) -> None:
    if len(step.emit) != 1:
        raise TraceError("{where} marks {n} tokens; it must be one.", where=where, n=len(step.emit))
    if not (0 < detail.expected < 1 and 0 < detail.chance < 1):
        raise TraceError("{where} counts against an expected share that is no share.", where=where)
    if any(value not in (0, 1) for value in detail.g_values):
        raise TraceError("{where} has a g-value that is neither 0 nor 1.", where=where)
