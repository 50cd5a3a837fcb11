"""Formulas of a beam search step: scores of the best open and the best finished text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine.trace.details import BeamDetail, BeamNode
from visualizers.formula.forms import fill_formula, formula_without_numbers, number_setting

FormulaLine = dict[str, Any]


def iter_beam_formulas(
    detail: BeamDetail, config: Mapping[str, Any], sums: dict[int, float], steps: int
) -> Iterator[FormulaLine | None]:
    """Yield the formulas of a beam search step.

    Args:
        detail: detail of the step.
        config: settings of the run.
        sums: node id -> sum of log-probabilities of all earlier steps; this step's are added to it.
        steps: number of earlier steps.
    """
    groups, penalty = (
        number_setting(config, "num_beam_groups", 1),
        number_setting(config, "length_penalty", 1.0),
    )
    if not detail.pool:
        return
    open_ones = [node for node in detail.pool if node.fate == "kept"] or list(detail.pool)
    best = max(open_ones, key=lambda node: node.sum_logprobs)
    if groups > 1:
        yield _diversity_formula(detail, config)
    above = 0.0 if best.parent_id < 0 else sums.get(best.parent_id)
    if above is not None:
        yield fill_formula("sum", best.token_id, best.sum_logprobs, s=above, b=best.logprob)
    length = steps + 1
    yield fill_formula("score", best.token_id, best.score, s=best.sum_logprobs, n=length, a=penalty)
    sums |= {node.node_id: node.sum_logprobs for node in detail.pool}
    if any(node.arrival is not None for node in detail.pool):
        yield formula_without_numbers("joint")
    if detail.heap:
        top = detail.heap[0]
        operands = {"s": top.sum_logprobs, "n": top.length, "a": penalty}
        yield fill_formula("finished_score", None, top.score, **operands)


def _diversity_formula(detail: BeamDetail, config: Mapping[str, Any]) -> FormulaLine | None:
    """Return the diversity penalty of one token, preferably of a kept one."""
    weight = number_setting(config, "diversity_penalty", 0.0)
    paid = [node for node in detail.pool if node.penalised_by]
    if not paid or not weight:
        return formula_without_numbers("diversity")
    node = max(paid, key=lambda node: (node.fate == "kept", node.diversity_penalty))
    count = round(node.diversity_penalty / weight)
    own = _logprob_before_penalty(node)
    return fill_formula("diversity", node.token_id, node.logprob, b=own, w=weight, n=count)


def _logprob_before_penalty(node: BeamNode) -> float:
    """Return a node's log-probability before the diversity penalty."""
    return node.logprob + node.diversity_penalty
