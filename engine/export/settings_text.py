"""Settings from elsewhere: JSON or Python keyword arguments, read field by field.

A field that cannot be used is named with the reason, and the others are used all the same.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.declare.params import build_config, params_of
from engine.errors import EngineError, format_value
from engine.export.generation_config import (
    BLOCK_KEY,
    MAX_BYTES,
    MODE_FIELDS,
    ConfigError,
    check_block,
    check_runs_no_code,
    infer_strategy,
    parse_config,
    parse_object,
)
from engine.messages import Message, join_messages
from engine.python_source import parse_module
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy
from engine.strategies.parameter_owners import describe_owners

_PYTHON = re.compile(r"'|\b(?:True|False|None)\b")
"""What a Python dictionary has and JSON lacks."""


@dataclass(frozen=True)
class ReadSettings:
    """Settings, read for one strategy.

    Attributes:
        strategy: the strategy for which they were read.
        params: the parameters that they set, in normal form.
        left_out: field -> one sentence why the strategy does not use it.
    """

    strategy: str
    params: Mapping[str, Any]
    left_out: Mapping[str, str]


def read_settings_text(text: str, current: str) -> ReadSettings:
    """Return the settings of a text.

    Args:
        text: a generation_config.json, another JSON object, or Python keyword arguments such as
            ``num_beams=4, do_sample=True``, also inside a call of ``generate()``.
        current: the strategy to use if the settings fit it or choose none.

    Raises:
        ConfigError: the text is neither, names a strategy that does not exist, or could run code.
    """
    fields, left_out = _parse_text(text)
    for field in (*fields, *left_out):
        check_runs_no_code(field)
    block = check_block(fields.pop(BLOCK_KEY, None))
    if block:
        fields.pop("watermarking_config", None)  # the block says the same and more
    name = block.get("strategy") or _choose_strategy(fields, STRATEGIES[current])
    if name not in STRATEGIES:
        raise ConfigError("There is no strategy {name} here.", name=format_value(name))
    found = read_fields({**fields, **block.get("params", {})}, STRATEGIES[name])
    return ReadSettings(name, found.params, {**left_out, **found.left_out})


def read_fields(fields: Mapping[str, Any], strategy: Strategy) -> ReadSettings:
    """Return what a strategy uses of some settings, and why it does not use the others."""
    params: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for field, value in fields.items():
        try:
            found = _params_of_field(strategy, field, value)
        except EngineError as error:
            left_out[field] = str(error)
            continue
        params |= found
        if not found:
            reason = _left_out_reason(strategy, field, value)
            left_out |= {field: reason} if reason else {}
    fitting = _drop_conflicts(strategy, params, left_out)
    return ReadSettings(strategy.name, fitting, left_out)


def _drop_conflicts(
    strategy: Strategy, params: dict[str, Any], left_out: dict[str, str]
) -> dict[str, Any]:
    """Return the parameters that fit together; the others are added to ``left_out``."""
    # All at once first: two that need each other do not fit one after the other.
    try:
        build_config(strategy.config, params, strategy.name)
    except EngineError:
        fitting: dict[str, Any] = {}
        for name, value in params.items():
            try:
                build_config(strategy.config, {**fitting, name: value}, strategy.name)
            except EngineError as error:
                left_out[name] = str(error)
            else:
                fitting[name] = value
        return fitting
    return params


def _params_of_field(strategy: Strategy, field: str, value: object) -> Mapping[str, Any]:
    """Return the parameters that one field sets, possibly none.

    Raises:
        EngineError: the strategy cannot use the field.
    """
    kinds = params_of(strategy.config)
    if field in kinds:
        off = value is None and not kinds[field].optional
        return {} if off else {field: kinds[field].check(field, value)}
    if _is_other_mode(strategy, field, value):
        return {}
    try:
        return parse_config(json.dumps({field: value}), strategy.name).params
    except ConfigError:
        owners = describe_owners(field)
        if not owners:
            raise
    raise ConfigError(
        "{field} = {value} is not for {title}: {owners}.",
        field=field,
        value=format_value(value),
        title=strategy.title,
        owners=owners,
    )


def _left_out_reason(strategy: Strategy, field: str, value: object) -> str:
    """Return why a field sets no parameter; empty if it has no effect anyway."""
    if _is_other_mode(strategy, field, value):
        other = STRATEGIES[infer_strategy({field: value})]
        return Message(
            "{field} = {value} chooses {title}, which is another strategy.",
            field=field,
            value=format_value(value),
            title=other.title,
        )
    return join_messages(parse_config(json.dumps({field: value}), strategy.name).left_out)


def _is_other_mode(strategy: Strategy, field: str, value: object) -> bool:
    """Return whether a field selects another strategy and is no parameter of this one."""
    mode = strategy.generate_kwargs(strategy.config())
    if field in params_of(strategy.config) or mode.get(field) == value:
        return False
    other = infer_strategy({field: value})
    return other not in ("greedy", strategy.name)


def _choose_strategy(fields: Mapping[str, Any], current: Strategy) -> str:
    """Return the current strategy if the fields fit it, else the one that transformers would use."""
    mode = current.generate_kwargs(current.config())
    own = params_of(current.config)
    chosen = {n: v for n, v in fields.items() if n in MODE_FIELDS and v is not None}
    if all(name in own or mode.get(name) == value for name, value in chosen.items()):
        return current.name
    return infer_strategy(fields)


def _parse_text(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of a text, and a sentence for each value that only Python could compute."""
    if len(text) > MAX_BYTES:
        raise ConfigError("The settings have more than {most} characters.", most=MAX_BYTES)
    if text.lstrip().startswith("{"):
        try:
            return parse_object(text), {}
        except ConfigError:
            if not _PYTHON.search(text):
                raise
            return _parse_keywords(f"dict(**{text.strip()})")
    return _parse_keywords(text)


def _parse_keywords(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    call = _find_call(text)
    fields: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, node in _keywords_of(call):
        try:
            # It evaluates literals only, no names and no calls: the text may come from anyone.
            value = ast.literal_eval(node)
            json.dumps(value, allow_nan=False)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            left_out[name] = Message("{field} is not a plain value.", field=name[:40])
        else:
            fields[name] = value
    if not fields and not left_out:
        raise ConfigError("The text has no settings: write them as num_beams=4 or as JSON.")
    return fields, left_out


def _find_call(text: str) -> ast.Call:
    """Return the last call of a text, or the text as the arguments of a call."""
    # The line break before the bracket ends a comment in the text's last line.
    for code in (text, f"dict({text.strip().rstrip(',')}\n)"):
        try:
            calls = [node for node in ast.walk(parse_module(code)) if isinstance(node, ast.Call)]
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        with_keywords = [call for call in calls if call.keywords]
        if with_keywords:
            # The one that is written first holds the others.
            return with_keywords[0]
    raise ConfigError("The text is neither JSON nor keyword arguments such as num_beams=4.")


def _keywords_of(call: ast.Call) -> list[tuple[str, ast.expr]]:
    """Return (name, value) of a call's keyword arguments, those of a written dictionary included."""
    found: list[tuple[str, ast.expr]] = []
    for keyword in call.keywords:
        if keyword.arg is not None:
            found.append((keyword.arg, keyword.value))
        elif isinstance(keyword.value, ast.Dict):
            for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    found.append((key.value, value))
    return found
