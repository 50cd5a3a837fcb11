"""The formulas: their computation and the rounding of their displayed numbers.

Operands are displayed with as many digits as are needed to compute the displayed result from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from engine.statistics.watermark_statistics import binomial_tail, z_score

Value = float | list[float]
_MIN_DIGITS, _MAX_DIGITS = 3, 12
_RECORD_ERROR = 1e-4
"""Relative error of a result that the rounding of recorded numbers can cause."""


def _acceptance_ratio(v: Mapping[str, Any]) -> float:
    return min(1.0, v["p"] / v["q"])


def _speed_up(v: Mapping[str, Any]) -> float:
    return (1 - v["a"] ** (v["g"] + 1)) / ((1 - v["a"]) * (1 + v["c"]))


RULES: dict[str, tuple[Callable[[Mapping[str, Any]], float], str]] = {
    "softmax": (lambda v: math.exp(v["z"]) / v["s"], ".4g"),
    "tempered": (lambda v: math.exp(v["z"] / v["t"]) / v["s"], ".4g"),
    "biased": (lambda v: math.exp(v["z"] / v["t"] + v["d"]) / v["s"], ".4g"),
    "repeated_up": (lambda v: v["z"] * v["r"], ".3f"),
    "repeated_down": (lambda v: v["z"] / v["r"], ".3f"),
    "dry": (lambda v: v["z"] - v["m"] * v["b"] ** (v["n"] - v["a"]), ".3f"),
    "top_k": (lambda v: v["n"], ".0f"),
    "top_p": (lambda v: v["m"], ".4g"),
    "top_p_last": (lambda v: v["m"] - v["b"], ".4g"),
    "min_p": (lambda v: v["a"] * v["b"], ".4g"),
    "surprise": (lambda v: -math.log2(v["p"]), ".2f"),
    "race": (lambda v: v["e"] / v["p"], ".3g"),
    "score": (lambda v: v["s"] / v["n"] ** v["a"], ".3f"),
    "finished_score": (lambda v: v["s"] / v["n"] ** v["a"], ".3f"),
    "sum": (lambda v: v["s"] + v["b"], ".3f"),
    "diversity": (lambda v: v["b"] - v["w"] * v["n"], ".3f"),
    "contrastive": (lambda v: (1 - v["a"]) * v["p"] - v["a"] * v["s"], ".3f"),
    "farthest": (lambda v: max(v["d"]), ".2e"),
    "mask": (lambda v: v["a"] * v["p"], ".4g"),
    "log_ratio": (lambda v: v["n"] - v["m"], ".2f"),
    "accept": (_acceptance_ratio, ".3f"),
    "accept_mixture": (lambda v: min(1.0, 1 - v["w"] + v["w"] * v["p"] / v["q"]), ".3f"),
    "match": (lambda v: max(v["p"], v["b"]), ".4g"),
    "residual": (lambda v: max(v["p"] - v["q"], 0.0), ".3f"),
    "speed_up": (_speed_up, ".2f"),
    "speed_up_all": (lambda v: (v["g"] + 1) / (1 + v["c"]), ".2f"),
    "z": (lambda v: z_score(v["h"], v["n"], v["g"]) or 0.0, ".2f"),
    "tail": (lambda v: binomial_tail(v["h"], v["n"], v["g"]), ".3g"),
    "ones": (lambda v: v["h"] / v["n"], ".4g"),
}
"""Name -> (function of the operands, format of the result)."""
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
    rule, style = RULES[form]
    try:
        exact = rule(operands)
        styles = [style]
        if result is None:
            result = exact
        elif math.isclose(exact, result, rel_tol=_RECORD_ERROR):
            # Recorded numbers are rounded, so the last digit may differ: allow one digit less.
            styles.append(_one_digit_less(style))
        for style in styles:
            wanted = _format_result(result, style)
            for digits in range(_MIN_DIGITS, _MAX_DIGITS):
                shown = {name: _format_operand(value, digits) for name, value in operands.items()}
                if _format_result(rule(_parse_operands(shown)), style) == wanted:
                    return {"form": form, **_token_field(token), "with": shown, "is": wanted}
    except (ArithmeticError, ValueError, TypeError):  # an operand is missing or out of range
        pass
    return None


def _one_digit_less(style: str) -> str:
    """Return the format with one digit less, such as ``.3g`` for ``.4g``; ``.0f`` stays."""
    digits = int(style[1:-1])
    return f".{max(digits - 1, 0)}{style[-1]}"


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
    return _strip_negative_zero(f"{value:.{digits}g}")


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
    return _strip_negative_zero(f"{value:{style}}")


def _strip_negative_zero(text: str) -> str:
    """Return the text of a finite number, with -0 as 0; ValueError if it is not finite."""
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return text.removeprefix("-") if float(text) == 0 else text
