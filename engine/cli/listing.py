"""The command ``list``: strategies, their parameters, and models."""

from __future__ import annotations

import argparse
import json
from typing import Any

from engine.declare.params import Param


def add(commands: Any) -> None:
    """Add ``list``."""
    listing = commands.add_parser("list", help="strategies, their parameters, and models")
    listing.add_argument("--json", action="store_true")
    listing.add_argument(
        "--model",
        action="append",
        default=[],
        help="also say what this model cannot serve: a hub id or a folder that is on this machine",
    )
    listing.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    from engine.declare.params import defaults_of, params_of
    from engine.declare.weights import weights_defaults as defaults
    from engine.declare.weights import weights_params as kinds
    from engine.models.catalogue import CATALOGUE
    from engine.strategies import STRATEGIES

    strategies = [
        {
            "name": s.name,
            "title": s.title,
            "family": s.family,
            "summary": s.summary,
            "params": _told(params_of(s.config), defaults_of(s.config)),
            "weights": _told(*(make(s.assistant != "none") for make in (kinds, defaults))),
        }
        for s in STRATEGIES.values()
    ]
    models = [
        {
            "name": e.name,
            "title": e.title,
            "parameters": e.parameters,
            "good_for": e.good_for,
            "available_offline": e.embedded and e.available,
            "cannot_serve": _refusals(e.name),
        }
        for e in CATALOGUE.values()
    ]
    models += [
        {"name": name, "parameters": "", "good_for": "", "cannot_serve": _refusals(name)}
        for name in arguments.model
    ]
    if arguments.json:
        print(json.dumps({"strategies": strategies, "models": models}))
        return
    for strategy in strategies:
        print(f"{strategy['name']:22}{strategy['title']}: {', '.join(strategy['params'])}")
    for model in models:
        print(f"{model['name']:32}{model['parameters']:>7}  {model['good_for']}".rstrip())
        for sentence in dict.fromkeys(model["cannot_serve"].values()):
            print(f"    {sentence}")


def _told(kinds: dict[str, Param], defaults: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"default": defaults[name], "allowed": kind.allowed(), "help": kind.help}
        for name, kind in kinds.items()
    }


def _refusals(name: str) -> dict[str, str]:
    """Return strategy -> why a model cannot serve it; nothing is known of one that is elsewhere."""
    from engine.strategies import STRATEGIES
    from engine.strategies.refusal import refusal

    found = {strategy.name: refusal(strategy, name) for strategy in STRATEGIES.values()}
    return {strategy: sentence for strategy, sentence in found.items() if sentence}
