"""The command ``list``: prints strategies, their parameters, and models."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from engine.cli.argument_values import Commands, escape_controls
from engine.declare.params import Param
from engine.sources.source import Source


def add(commands: Commands) -> None:
    """Add the command ``list``."""
    listing = commands.add_parser("list", help="list strategies, their parameters, and models")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.add_argument(
        "--model",
        action="append",
        default=[],
        help="also list this model and the strategies it cannot run: hub id or folder on this machine",
    )
    listing.add_argument(
        "--drafts-for",
        metavar="MODEL",
        help="list only the models that can draft for this one, with the reasons",
    )
    listing.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    if arguments.drafts_for is not None:
        _print_drafts(arguments.drafts_for, as_json=arguments.json)
        return
    from engine.declare.params import defaults_of, params_of
    from engine.declare.weights import weights_defaults as defaults
    from engine.declare.weights import weights_params as kinds
    from engine.sources.catalogue import CATALOGUE
    from engine.sources.installable import fetch_command
    from engine.strategies import STRATEGIES

    strategies = [
        {
            "name": s.name,
            "title": s.title,
            "group": s.group,
            "summary": s.summary,
            "params": _describe_params(params_of(s.config), defaults_of(s.config)),
            "weights": _describe_params(
                *(make(s.assistant != "none") for make in (kinds, defaults))
            ),
        }
        for s in STRATEGIES.values()
    ]
    models = [
        {
            "name": e.name,
            "title": e.title,
            "parameters": e.parameters,
            "memory_gb": e.memory_gb,
            "gated": e.gated,
            "good_for": e.good_for,
            "available_offline": e.folder is not None and e.available,
            "how_to_fetch": fetch_command(e.name) if e.brought and not e.available else "",
            "cannot_serve": _incompatibilities_by_strategy(Source.from_entry(e)),
            "own_settings": _defaults_by_strategy(Source.from_entry(e)),
        }
        for e in CATALOGUE.values()
    ]
    models += [
        {
            "name": name,
            "parameters": "",
            "good_for": "",
            "how_to_fetch": "",
            "cannot_serve": _incompatibilities_by_strategy(Source.find(name)),
            "own_settings": _defaults_by_strategy(Source.find(name)),
        }
        for name in arguments.model
    ]
    if arguments.json:
        print(json.dumps({"strategies": strategies, "models": models}))
    else:
        _print_tables(strategies, models)


def _print_tables(strategies: list[dict[str, Any]], models: list[dict[str, Any]]) -> None:
    for strategy in strategies:
        print(f"{strategy['name']:22}{strategy['title']}: {', '.join(strategy['params'])}")
    for model in models:
        print(f"{model['name']:32}{model['parameters']:>7}  {model['good_for']}".rstrip())
        if model["how_to_fetch"]:
            print(f"    not on this machine yet: {model['how_to_fetch']}")
        for sentence in dict.fromkeys(model["cannot_serve"].values()):
            print(f"    {sentence}")
        for line in _format_model_defaults(Source.find(model["name"])):
            print(escape_controls(f"    {line}"))


def _print_drafts(target: str, *, as_json: bool) -> None:
    from dataclasses import asdict

    from engine.models.draft_pairs import early_exit_reason, find_draft_pairs

    source = Source.parse(target)
    same = find_draft_pairs(source, "same_tokenizer")
    names = {pair.name for pair in same}
    others = [pair for pair in find_draft_pairs(source, "any_tokenizer") if pair.name not in names]
    exits = early_exit_reason(source)
    if as_json:
        listed = {"speculative": same, "universal_assisted": others}
        drafts = {strategy: [asdict(pair) for pair in pairs] for strategy, pairs in listed.items()}
        print(json.dumps({"target": target, "drafts": drafts, "early_exit": exits}))
        return
    for strategy, pairs in (("speculative", same), ("universal_assisted", others)):
        print(f"{strategy}:" if pairs else f"{strategy}: no known draft model")
        for pair in pairs:
            print(escape_controls(f"    {pair.name:31} {pair.reason}"))
    print(
        escape_controls(
            f"early_exit: {exits or 'no sign that its layers were trained for early exit'}"
        )
    )


def _defaults_by_strategy(source: Source | None) -> dict[str, Any]:
    """Return strategy -> settings of the model's generation_config; empty if damaged or unset."""
    from engine.errors import EngineError
    from engine.export.generation_config import model_defaults
    from engine.export.own_defaults import own_defaults
    from engine.strategies import STRATEGIES

    try:
        if not model_defaults(source):
            return {}
        found = [own_defaults(source, strategy) for strategy in STRATEGIES]
    except EngineError:
        return {}
    return {o.strategy: {"params": o.params, "left_out": o.left_out} for o in found}


def _format_model_defaults(source: Source | None) -> list[str]:
    """Format the model's generation_config as lines, for the strategy that it selects."""
    from engine.errors import EngineError
    from engine.export.own_defaults import own_defaults
    from engine.strategies import STRATEGIES

    try:
        own = own_defaults(source)
    except EngineError as error:
        return [f"its own settings: {error}"]
    lines = list(own.left_out.values())
    if own.params:
        values = [f"{n} = {v} (default here: {own.defaults[n]})" for n, v in own.params.items()]
        title = STRATEGIES[own.strategy].title
        lines.insert(
            0,
            f"its own settings, for {title}: {', '.join(values)}; runs ignore them unless you set them",
        )
    return lines


def _describe_params(kinds: dict[str, Param], defaults: Mapping[str, object]) -> dict[str, Any]:
    return {
        name: {"default": defaults[name], "allowed": kind.describe_range(), "help": kind.help}
        for name, kind in kinds.items()
    }


def _incompatibilities_by_strategy(source: Source | None) -> dict[str, str]:
    """Return strategy -> why the model cannot run it; empty if the model is not on this machine."""
    from engine.strategies import STRATEGIES
    from engine.strategies.compatibility import incompatibility_reason

    if source is None:
        return {}
    found = {s.name: incompatibility_reason(s, source) for s in STRATEGIES.values()}
    return {strategy: sentence for strategy, sentence in found.items() if sentence}
