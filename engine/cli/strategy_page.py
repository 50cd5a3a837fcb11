"""Generates docs/strategies.md from the strategy declarations."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from engine.declare.bundled_loop import BundledLoop
from engine.declare.config import (
    LengthParams,
    NextTokenParams,
    PenaltyParams,
    SamplingParams,
    config_to_dict,
)
from engine.declare.groups import FAMILIES
from engine.declare.params import Param, build_config, defaults_of, params_of
from engine.errors import EngineError, ParameterError
from engine.export.plan import Plan, plan_export
from engine.export.script import value_to_code
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy
from engine.strategies.bundled_loops import find_bundled_loop
from engine.trace.records import ModelInfo, Trace

_HEAD = """# Strategies

<!-- Written by `python -m engine docs` from engine/strategies; a change made here is lost. -->

Every strategy of the playground as it is declared. `ids` is the prompt, (1, length) token ids; parameters that a
call does not name have transformers' own defaults. Ranges include their ends unless they say above or below.
"""
_SHARED_SECTIONS = {
    "length": ("Length and stopping", LengthParams, ("num_return_sequences",)),
    "penalties": ("Penalties, tokens and numerics", PenaltyParams, ()),
    "filters": ("Filters before a draw", SamplingParams, ()),
}
"""Anchor -> (title, config class that declares the parameters, further parameters)."""
_COMPANION_SETTINGS = ({"do_sample": True},)
"""Settings with which other parameters may need an exported loop that they do not need alone."""
_MAX_CODE_CHARS = 60


def strategies_page(root: Path) -> str:
    """Return docs/strategies.md as Markdown; ``root`` is ignored, as only declarations matter."""
    del root
    parts = [_HEAD, _contents_table()]
    parts += [_strategy_section(strategy) for strategy in STRATEGIES.values()]
    parts.append("## Parameters that many share\n")
    for anchor, (title, *_) in _SHARED_SECTIONS.items():
        kinds, defaults = _shared_params(anchor)
        parts.append(f'<a id="{anchor}"></a>\n\n### {title}\n\n{_params_table(kinds, defaults)}')
    return "\n".join(parts)


def _contents_table() -> str:
    rows = [
        [title, ", ".join(f"[{s.title}](#{s.name})" for s in _strategies_of_family(family))]
        for family, title in FAMILIES.items()
    ]
    return _markdown_table(("family", "strategies"), rows)


def _shared_params(anchor: str) -> tuple[dict[str, Param], dict[str, Any]]:
    """Return the parameters and the defaults of a shared section."""
    _, config, besides = _SHARED_SECTIONS[anchor]
    everything = params_of(NextTokenParams)
    kinds = params_of(config) | {name: everything[name] for name in besides}
    defaults = defaults_of(config) | {name: defaults_of(NextTokenParams)[name] for name in besides}
    return kinds, defaults


def _strategies_of_family(name: str) -> list[Strategy]:
    return [strategy for strategy in STRATEGIES.values() if strategy.family == name]


def _strategy_section(strategy: Strategy) -> str:
    own, shared = _split_params(strategy.config)
    sections = [
        f'<a id="{strategy.name}"></a>\n\n## {strategy.title} · `{strategy.name}`',
        f"{strategy.summary}\n\nSource: {strategy.paper}.",
        _default_models(strategy),
        f"**Parameters**\n\n{_params_table(own, defaults_of(strategy.config))}\nBesides: {shared}."
        if own
        else f"**Parameters:** {shared}.",
        f"**In transformers**\n\n{_transformers_call(strategy)}\n\n{_bundled_loop_text(strategy)}",
        f"**Presets**\n\n{_presets_table(strategy)}",
    ]
    return "\n\n".join(section.rstrip() for section in sections) + "\n"


def _default_models(strategy: Strategy) -> str:
    models = f"model `{strategy.default_model}`"
    if strategy.default_assistant:
        models += f", draft model `{strategy.default_assistant}`"
    pictures = ", ".join(f"`{name}`" for name in strategy.visuals)
    return f"By default {models}. Pictures: {pictures}."


def _split_params(config: type) -> tuple[dict[str, Param], str]:
    """Return the parameters specific to this config, and links to the shared sections."""
    own, defaults = params_of(config), defaults_of(config)
    links = []
    for anchor, (title, *_) in _SHARED_SECTIONS.items():
        kinds, usual = _shared_params(anchor)
        same = [n for n in kinds if own.get(n) == kinds[n] and defaults[n] == usual[n]]
        missing = [name for name in kinds if name not in same]
        if not same:
            continue
        own = {name: kind for name, kind in own.items() if name not in same}
        without = f" without {', '.join(f'`{n}`' for n in missing)}" if missing else ""
        links.append(f"[{title.lower()}](#{anchor}){without}")
    return own, ", ".join(links)


def _params_table(kinds: dict[str, Param], defaults: dict[str, Any]) -> str:
    rows = [
        [f"`{name}`", _format_code(_format_default(defaults[name])), _format_range(kind), kind.help]
        for name, kind in kinds.items()
    ]
    return _markdown_table(("parameter", "default", "range", "what it does"), rows)


def _format_default(value: Any) -> str:
    return "off" if value is None else json.dumps(value)


def _format_range(kind: Param) -> str:
    return f"{kind.describe_range()}, or off" if kind.optional else kind.describe_range()


def _format_code(text: str) -> str:
    return f"`{text}`" if len(text) <= _MAX_CODE_CHARS else f"`{text[: _MAX_CODE_CHARS - 1]}…`"


def _presets_table(strategy: Strategy) -> str:
    rows = []
    for preset in strategy.presets:
        given = ", ".join(f"`{n}={json.dumps(v)}`" for n, v in preset.params.items())
        model = f", model `{preset.model}`" if preset.model else ""
        seed = f", seed {preset.seed}" if preset.seed else ""
        rows.append([preset.name, preset.prompt, f"{given}{model}{seed}", preset.shows])
    return _markdown_table(("name", "prompt", "settings", "look at"), rows)


def _transformers_call(strategy: Strategy) -> str:
    """Return the transformers call that decodes like the strategy with its defaults."""
    plan = _default_plan(strategy)
    values = {name: value_to_code(value) for name, value in plan.values.items()}
    lines = []
    if strategy.moved_to:
        own, _ = _split_params(strategy.config)
        values |= {name: repr(getattr(plan.config, name)) for name in own}
        values |= {"custom_generate": repr(strategy.moved_to), "trust_remote_code": "True"}
    elif plan.own:
        return "There is no such call: its loop is its own."
    if strategy.assistant != "none":
        values["assistant_model"] = "assistant"
    if plan.needs_tokenizers:
        values |= {"tokenizer": "tokenizer", "assistant_tokenizer": "assistant_tokenizer"}
    if plan.draft_values:
        owner = "assistant" if strategy.assistant != "none" else "model"
        settings = f"{owner}.generation_config"
        lines = [f"{settings}.{n} = {v!r}" for n, v in plan.draft_values.items()]
    call = "".join(f"    {name}={value},\n" for name, value in values.items())
    return "\n".join(["```python", *lines, f"model.generate(\n    ids,\n{call})", "```"])


def _default_plan(strategy: Strategy) -> Plan:
    """Return the export plan of a run with the strategy's defaults."""
    info = ModelInfo(strategy.default_model)
    draft = ModelInfo(strategy.default_assistant) if strategy.default_assistant else None
    return plan_export(
        Trace(
            strategy=strategy.name,
            config=config_to_dict(strategy.config()),
            model=info,
            versions={},
            seed=0,
            prompt="",
            prompt_ids=(),
            pieces={},
            steps=(),
            outputs=(),
            assistant=draft,
        )
    )


def _bundled_loop_text(strategy: Strategy) -> str:
    """Return sentences on which loop exported code includes, and for which parameters."""
    always = find_bundled_loop(strategy, strategy.config())
    if always is not None:
        return f"Exported code always brings {_loop_reference(always.loop)} along: {always.why}."
    found: dict[tuple[str, str, str], list[str]] = {}
    own = params_of(strategy.config)
    for beside in ({}, *(one for one in _COMPANION_SETTINGS if own.keys() >= one.keys())):
        alone = _bundled_loop(strategy, beside)
        for name, value in ((name, v) for name, kind in own.items() for v in _sample_values(kind)):
            brought = _bundled_loop(strategy, beside | {name: value})
            if not brought or alone or (beside and _bundled_loop(strategy, {name: value})):
                continue
            said = "".join(f" together with `{n}={v}`" for n, v in beside.items())
            names = found.setdefault((_loop_reference(brought.loop), brought.why, said), [])
            names += [] if name in names else [name]
    if not found:
        return "Exported code makes that call alone."
    return " ".join(
        f"Exported code brings {loop} along once {_join_alternatives(names)} is used{said}: {why}."
        for (loop, why, said), names in found.items()
    )


def _bundled_loop(strategy: Strategy, params: dict[str, Any]) -> BundledLoop | None:
    """Return the loop that exported code includes with these parameters; None if invalid."""
    try:
        return find_bundled_loop(strategy, build_config(strategy.config, params, strategy.name))
    except ParameterError:
        return None


def _sample_values(kind: Param) -> Iterable[Any]:
    """Return sample values of many types; the caller skips those that the parameter rejects."""
    low, high = getattr(kind, "minimum", None), getattr(kind, "maximum", None)
    middle = [] if low is None or high is None else [(low + high) / 2]
    lists = ["a", ["a"], [1], [[1]], [[[1], 2.0]], [1, 2.0]]
    return [True, False, low, high, *middle, *getattr(kind, "choices", ()), *lists]


def _loop_reference(loop: Any) -> str:
    source = Path(sys.modules[loop.__module__].__file__ or "")
    try:
        path = source.resolve().relative_to(Path(__file__).resolve().parents[2])
    except ValueError:
        raise EngineError(f"{loop.__name__} is not a loop of this repository.") from None
    return f"`{loop.__name__}` of {path.as_posix()}"


def _join_alternatives(names: Sequence[str]) -> str:
    *others, last = [f"`{name}`" for name in names]
    return f"{', '.join(others)} or {last}" if others else last


def _markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_escape_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _escape_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
