"""The formulas: their computation and the rounding of their displayed numbers.

Results have two significant digits or two decimals, and more only where a comparison would look
untrue. Operands have as many digits as are needed to compute the displayed result from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.statistics.watermark_statistics import binomial_tail, z_score

Value = float | list[float]
_MIN_DIGITS, _MAX_DIGITS = 2, 12
_MORE_DIGITS = 4
"""Digits that a result may get beyond those of its style."""
_SMALL, _LARGE = 0.1, 1e6
"""Below, numbers have significant digits; from here on, they have a power of ten."""
_RECORD_ERROR, _LEAST_ERROR = 1e-4, 2e-6
"""Relative and absolute error of a result that the rounding of recorded numbers can cause."""


@dataclass(frozen=True)
class Rule:
    """How a formula's result is computed and displayed.

    Attributes:
        compute: the result of the operands.
        style: format of the result, such as ``.2g``.
        holds: whether what the formula says of displayed operands and result is true, such as that
            one number is larger than another; None for a formula that compares nothing.
    """

    compute: Callable[[Mapping[str, Any]], float]
    style: str
    holds: Callable[[Mapping[str, Any], float], bool] | None = None


def _acceptance_ratio(v: Mapping[str, Any]) -> float:
    return min(1.0, v["p"] / v["q"])


def _mixture_ratio(v: Mapping[str, Any]) -> float:
    return min(1.0, 1 - v["w"] + v["w"] * v["p"] / v["q"])


def _is_judged_alike(v: Mapping[str, Any], limit: float) -> bool:
    return (v["u"] <= limit) == bool(v["kept"])


def _is_beaten(v: Mapping[str, Any], best: float) -> bool:
    # Rounding the largest probability must not widen the gap that it shows.
    return v["p"] < v["b"] and abs(best - v["b"]) < v["b"] - v["p"]


def _adaptive_logit(v: Mapping[str, Any]) -> float:
    far = abs(v["p"] - v["t"]) / 0.3
    return 5 - 10 * far**2 / (1 + far)


def _speed_up(v: Mapping[str, Any]) -> float:
    return (1 - v["a"] ** (v["g"] + 1)) / ((1 - v["a"]) * (1 + v["c"]))


RULES: dict[str, Rule] = {
    "softmax": Rule(lambda v: math.exp(v["z"]) / v["s"], ".2g"),
    "tempered": Rule(lambda v: math.exp(v["z"] / v["t"]) / v["s"], ".2g"),
    "biased": Rule(lambda v: math.exp(v["z"] / v["t"] + v["d"]) / v["s"], ".2g"),
    "repeated_up": Rule(lambda v: v["z"] * v["r"], ".2f"),
    "repeated_down": Rule(lambda v: v["z"] / v["r"], ".2f"),
    "dry": Rule(lambda v: v["z"] - v["m"] * v["b"] ** (v["n"] - v["a"]), ".2f"),
    "top_k": Rule(lambda v: v["n"], ".0f"),
    "top_p": Rule(lambda v: v["m"], ".2g", lambda v, _: v["m"] >= v["c"]),
    "top_p_last": Rule(lambda v: v["m"] - v["b"], ".2g", lambda v, rest: v["m"] >= v["c"] > rest),
    "min_p": Rule(lambda v: v["a"] * v["b"], ".2g"),
    "mirostat": Rule(lambda v: -math.log2(v["p"]), ".2f", lambda v, bits: bits <= v["m"]),
    "adaptive_p": Rule(_adaptive_logit, ".2f"),
    "xtc": Rule(lambda v: v["c"], ".2g", lambda v, _: v["c"] <= v["p"]),
    "xtc_rests": Rule(lambda v: v["c"], ".2g", lambda v, _: v["c"] > v["p"]),
    "surprise": Rule(lambda v: -math.log2(v["p"]), ".2f"),
    "race": Rule(lambda v: v["e"] / v["p"], ".2g"),
    "score": Rule(lambda v: v["s"] / v["n"] ** v["a"], ".2f"),
    "finished_score": Rule(lambda v: v["s"] / v["n"] ** v["a"], ".2f"),
    "sum": Rule(lambda v: v["s"] + v["b"], ".2f"),
    "diversity": Rule(lambda v: v["b"] - v["w"] * v["n"], ".2f"),
    "contrastive": Rule(lambda v: (1 - v["a"]) * v["p"] - v["a"] * v["s"], ".2f"),
    "farthest": Rule(lambda v: max(v["d"]), ".1e"),
    "mask": Rule(lambda v: v["a"] * v["p"], ".2g"),
    "log_ratio": Rule(lambda v: v["n"] - v["m"], ".2f"),
    "accept": Rule(_acceptance_ratio, ".2f", _is_judged_alike),
    "accept_mixture": Rule(_mixture_ratio, ".2f", _is_judged_alike),
    "match": Rule(lambda v: max(v["p"], v["b"]), ".2g", _is_beaten),
    "residual": Rule(lambda v: max(v["p"] - v["q"], 0.0), ".2f"),
    "speed_up": Rule(_speed_up, ".2f"),
    "speed_up_all": Rule(lambda v: (v["g"] + 1) / (1 + v["c"]), ".2f"),
    "z": Rule(lambda v: z_score(v["h"], v["n"], v["g"]) or 0.0, ".2f"),
    "tail": Rule(lambda v: binomial_tail(v["h"], v["n"], v["g"]), ".2g"),
    "ones": Rule(lambda v: v["h"] / v["n"], ".2g"),
}
"""Name -> how its result is computed and displayed."""
WITHOUT_NUMBERS = (
    *(
        "argmax",
        "match",
        "match_drawn",
        "match_mixture",
        "diversity",
        "tournament",
        "joint",
        "top_n_sigma",
        "adaptive_p",
    ),
)
"""Formulas that may be shown without numbers."""


def fill_formula(
    form: str, token: int | None = None, result: float | None = None, **operands: Value
) -> dict[str, Any] | None:
    """Return a formula with its numbers formatted for display.

    Args:
        form: a key of RULES.
        token: id of the token that the formula is about.
        result: the recorded result; None to compute it from the operands.
        operands: operands by name; whole numbers and settings keep all their digits.

    Returns:
        ``form``, ``of`` (the token id, if given), ``with`` (operand name -> text) and ``is`` (text
        of the result). None if the operands do not give the result, because something else affected
        it, or if a number is not finite.
    """
    rule = RULES[form]
    try:
        exact = rule.compute(operands)
        if result is None:
            result = exact
        elif not math.isclose(exact, result, rel_tol=_RECORD_ERROR, abs_tol=_LEAST_ERROR):
            return None
        if rule.holds is not None and not rule.holds(operands, result):
            return None
        for style in _finer_styles(rule.style):
            wanted = _format_result(result, style)
            for digits in range(_MIN_DIGITS, _MAX_DIGITS):
                shown = {name: _format_operand(value, digits) for name, value in operands.items()}
                if _is_shown(rule, _parse_operands(shown), wanted, style):
                    return {"form": form, **_token_field(token), "with": shown, "is": wanted}
    except (ArithmeticError, ValueError, TypeError):  # an operand is missing or out of range
        pass
    return None


def _finer_styles(style: str) -> list[str]:
    """Return a format and those with more digits; ``.0f`` of whole numbers stays alone.

    A recorded number is rounded, so a result can lie on the other side of a rounding edge than the
    computed one. Another digit moves the edge.
    """
    digits = int(style[1:-1])
    more = range(digits, digits + _MORE_DIGITS + 1) if digits else [digits]
    return [f".{count}{style[-1]}" for count in more]


def _is_shown(rule: Rule, operands: Mapping[str, Any], wanted: str, style: str) -> bool:
    """Return whether displayed operands give the displayed result and what it is compared with."""
    if _format_result(rule.compute(operands), style) != wanted:
        return False
    return rule.holds is None or rule.holds(operands, float(wanted))


def number_setting(config: Mapping[str, Any], name: str, default: float) -> float:
    """Return a numeric setting of a run, or the default if it is missing or no number."""
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    return float(value)


def formula_without_numbers(form: str, token: int | None = None) -> dict[str, Any]:
    """Return a formula without numbers."""
    return {"form": form, **_token_field(token)}


def _token_field(token: int | None) -> dict[str, int]:
    return {} if token is None else {"of": token}


def _format_operand(value: Value, digits: int) -> Any:
    if isinstance(value, list):
        return [_format_operand(one, digits) for one in value]
    if isinstance(value, int) or value == round(value, 3):
        return _strip_negative_zero(f"{value:.12g}")
    return _strip_negative_zero(_format_plainly(value, f".{digits}g"))


def _parse_operands(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Parse displayed operands back to numbers."""
    return {
        name: [_parse_number(one) for one in text]
        if isinstance(text, list)
        else _parse_number(text)
        for name, text in shown.items()
    }


def _parse_number(text: str) -> float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _format_result(value: float, style: str) -> str:
    return _strip_negative_zero(_format_plainly(value, style))


def _format_plainly(value: float, style: str) -> str:
    """Format a number: below 0.1 with significant digits, and a large one without a power of ten."""
    if style.endswith("f") and abs(value) < _SMALL:
        style = f"{style[:-1]}g"
    text = f"{value:{style}}"
    return f"{value:.0f}" if "e+0" in text and style.endswith("g") and abs(value) < _LARGE else text


def _strip_negative_zero(text: str) -> str:
    """Return the text of a finite number, with -0 as 0; ValueError if it is not finite."""
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return text.removeprefix("-") if float(text) == 0 else text
