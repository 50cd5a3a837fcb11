"""The page's declaration as JSON values, from which the scripts draw every form.

One declaration serves tabs, comparison columns, branches, many draws and the watermark bench. The
bounds of a control come from the strategy's file only.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from engine.analysis import examples, gallery
from engine.analysis.comparisons import LABELS, ComparePreset, available_presets
from engine.analysis.first_visit import strategy_answers
from engine.declare.groups import COLLAPSED, MAIN_GROUP, STRATEGY_GROUPS
from engine.declare.params import Choice, Flag, Integer, Number, Param, defaults_of, params_of
from engine.declare.slider import slider_bounds
from engine.declare.structured_outputs import StructuredOutputs
from engine.declare.weights import (
    ASSISTANT_PREFIX,
    REQUIRED_SETTINGS,
    weights_defaults,
    weights_params,
)
from engine.glossary import glossary_texts, term_for_parameter
from engine.inspection.processors import changeable_parameters
from engine.inspection.step_scores import can_decide_in_page
from engine.inspection.what_if import refusal_reason
from engine.live.plan import refusal_on_server
from engine.messages import Message
from engine.processors import filter_titles
from engine.run.request import MAX_SEED
from engine.run.weights import list_weight_params
from engine.sandbox.method_templates import list_templates
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from engine.strategies.base import Preset, Strategy
from engine.strategies.chat_presets import CHAT_MODEL, CHAT_PRESETS
from engine.strategies.compatibility import incompatibility_reason
from engine.strategies.custom import MethodArguments, MethodName
from engine.strategies.dola import LayerChoice
from engine.strategies.media_presets import MEDIA_PRESETS
from engine.strategies.parameter_conditions import conditional_parameters
from playground.forms import controls, media_inputs, model_options
from playground.forms.model_options import OfferedModel, list_offered_models
from playground.forms.run_views import MODEL_VIEWS, live_views, stage_views
from playground.shell import lazy_imports
from visualizers import strategy_visuals

SEED = Integer(
    label="Seed",
    help="Same seed, same text. Change the seed for another one.",
    minimum=0,
    maximum=MAX_SEED,
)


def page_spec() -> dict[str, Any]:
    """Return the whole declaration. A parameter shared by several strategies occurs in it once.

    It changes while the server runs: models that are installed appear, and so do refused models
    once torch has loaded and they can be checked.
    """
    held = tuple(list_weight_params(assistant=True).items())
    return _cached_spec(list_offered_models(), held, lazy_imports.is_finished())


@lru_cache(maxsize=2)
def _cached_spec(
    models: tuple[OfferedModel, ...], held: tuple[tuple[str, Param], ...], tried: bool
) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = []
    compared = examples.recorded_comparisons()
    return {
        "main": MAIN_GROUP,
        "groups": COLLAPSED,
        "strategy_groups": STRATEGY_GROUPS,
        "seed": param_spec("seed", SEED, 0),
        "strategies": [_strategy_spec(s, dict(held), kinds, tried) for s in STRATEGIES.values()],
        "params": kinds,
        "models": model_options.models_spec(models),
        "typed_models": model_options.can_type_models(),
        "addresses": model_options.can_type_addresses(),
        "served_views": live_views(),
        "model_views": [*MODEL_VIEWS],
        "installable": model_options.installable_spec(),
        "media": media_inputs.media_options(),
        "drafts": model_options.drafts_spec(models),
        "weights": weights_controls(),
        "terms": glossary_texts(),
        "filters": filter_titles(),
        "methods": list(list_templates()),
        "compare": {
            "labels": LABELS,
            "presets": [_comparison_spec(p, compared.get(p.name)) for p in available_presets()],
        },
    }


def param_spec(name: str, kind: Param, default: Any) -> dict[str, Any]:
    """Return one control as JSON values: its texts, bounds and initial value."""
    about: dict[str, Any] = {
        "name": name,
        "label": kind.label,
        "plain_label": kind.plain_label or kind.label,
        "help": kind.help,
        "group": kind.group,
        "optional": kind.optional,
        "term": term_for_parameter(name),
        "value": controls.to_control(kind, default),
    }
    if isinstance(kind, Flag):
        return about | {"kind": "flag"}
    if isinstance(kind, Choice):
        choices = [controls.to_control(kind, c) for c in kind.choices]
        return about | {"kind": "choice", "choices": [""] * kind.optional + choices}
    if isinstance(kind, (Number, Integer)):
        bounds = {"minimum": kind.minimum, "maximum": kind.maximum, "step": kind.step}
        ends = slider_bounds(kind)
        return about | {
            "kind": "number",
            **bounds,
            "slider": None if kind.optional else ends,
            "reach": ends,
        }
    kind_of = {
        MethodName: "method",
        MethodArguments: "arguments",
        LayerChoice: "layers",
        StructuredOutputs: "grammar",
    }
    return about | {"kind": kind_of.get(type(kind), "text")}


def control_values(strategy: Strategy, params: Any, weights: Any = None) -> dict[str, Any]:
    """Return a strategy's control values: defaults changed by ``params``, and weights settings."""
    drafted = strategy.assistant != "none"
    values = {**defaults_of(strategy.config), **params}
    values |= {**weights_defaults(drafted), **(weights or {})}
    kinds = params_of(strategy.config) | weights_params(drafted)
    return {name: controls.to_control(kind, values[name]) for name, kind in kinds.items()}


def _strategy_spec(
    strategy: Strategy, held: dict[str, Param], known: list[dict[str, Any]], tried: bool
) -> dict[str, Any]:
    drafted = strategy.assistant != "none"
    own = {n: k for n, k in held.items() if drafted or not n.startswith(ASSISTANT_PREFIX)}
    kinds = params_of(strategy.config) | own
    defaults = defaults_of(strategy.config) | weights_defaults(drafted)
    told = strategy_answers(strategy)
    return {
        "name": strategy.name,
        "title": strategy.title,
        "plain_name": strategy.plain_name or strategy.tab,
        "group": strategy.group,
        "summary": strategy.summary,
        "helps": told.helps,
        "turns": told.turns,
        "paper": strategy.paper,
        "model": strategy.default_model,
        "assistant": strategy.default_assistant or "",
        "draft": strategy.assistant,
        "refused": _refused_models(strategy) if tried else {},
        "no_server": refusal_on_server(strategy.name),
        "only": _dependent_params(strategy),
        "dials": list(strategy.dials),
        "visuals": stage_views(strategy.name, strategy_visuals(strategy.name, strategy.visuals)),
        "what_if": _what_if_params(strategy),
        "presets": [
            *(_preset_spec(strategy, p) for p in strategy.presets),
            *_media_presets(strategy),
            *_chat_presets(strategy),
        ],
        "params": [_param_index(param_spec(n, k, defaults[n]), known) for n, k in kinds.items()],
    }


def _refused_models(strategy: Strategy) -> dict[str, str]:
    """Map each offered model that cannot serve a strategy to the reason."""
    reasons = {
        e.name: incompatibility_reason(strategy, Source.from_entry(e))
        for e, *_ in list_offered_models()
    }
    return {name: reason for name, reason in reasons.items() if reason is not None}


def find_refused_models() -> None:
    """Compute which models each strategy refuses, so that the next declaration is fast."""
    for strategy in STRATEGIES.values():
        _refused_models(strategy)


def _dependent_params(strategy: Strategy) -> dict[str, dict[str, Any]]:
    """Map each dependent parameter to its controlling one, the enabling values and the reason."""
    kinds = params_of(strategy.config)
    found = {
        name: {
            "name": only.name,
            "values": [controls.to_control(kinds[only.name], value) for value in only.values],
            "why": only.why,
        }
        for name, only in conditional_parameters(strategy).items()
    }
    return found | dependent_weights(strategy.assistant != "none")


def dependent_weights(assistant: bool) -> dict[str, dict[str, Any]]:
    """Return the same map for the weights settings.

    ``assistant`` adds the weights settings of the draft model.
    """
    kinds = weights_params(assistant)
    return {
        prefix + name: {
            "name": prefix + other,
            "values": [value],
            "why": Message(
                "This works only while {label} is {value}.",
                label=kinds[prefix + other].label,
                value=value,
            ),
        }
        for prefix in (("", ASSISTANT_PREFIX) if assistant else ("",))
        for name, (other, value) in REQUIRED_SETTINGS.items()
    }


def weights_controls() -> dict[str, Any]:
    """Return one model's weights controls as ``params``, and their dependencies as ``only``."""
    defaults = weights_defaults(assistant=False)
    kinds = list_weight_params(assistant=False)
    return {
        "params": [param_spec(name, kind, defaults[name]) for name, kind in kinds.items()],
        "only": dependent_weights(assistant=False),
    }


def _what_if_params(strategy: Strategy) -> dict[str, Any]:
    """Return the controls that what-if questions offer, and the reason if there are none.

    ``in_page`` says whether the page can decide steps by itself; see ``step_scores``.
    """
    refused = refusal_reason(strategy)
    kinds = params_of(strategy.config)
    names = (
        [n for n in changeable_parameters(strategy.config) if _is_what_if_param(kinds[n])]
        if not refused
        else []
    )
    return {"params": names, "refused": refused, "in_page": can_decide_in_page(strategy)}


def _is_what_if_param(kind: Param) -> bool:
    named = isinstance(kind, (Number, Integer, Flag, Choice))
    return named and kind.group in (MAIN_GROUP, "sampling", "penalties")


def _param_index(declared: dict[str, Any], known: list[dict[str, Any]]) -> int:
    """Return a control's index in the list of all controls, appending a new one."""
    if declared not in known:
        known.append(declared)
    return known.index(declared)


def _preset_spec(strategy: Strategy, preset: Preset) -> dict[str, Any]:
    kinds = params_of(strategy.config)
    return {
        "name": preset.name,
        "prompt": preset.prompt,
        "seed": preset.seed,
        "model": preset.model or strategy.default_model,
        "image": preset.image,
        "audio": preset.audio,
        "shows": preset.shows,
        "recorded": _recorded_name(strategy.name, preset.name),
        "params": {n: controls.to_control(kinds[n], v) for n, v in preset.params.items()},
    }


def _media_presets(strategy: Strategy) -> list[dict[str, Any]]:
    """Return the presets with a picture or sound whose models are offered."""
    offered = {entry.name for entry, *_ in list_offered_models()}
    found = MEDIA_PRESETS.get(strategy.name, ())
    return [_preset_spec(strategy, preset) for preset in found if preset.model in offered]


def _chat_presets(strategy: Strategy) -> list[dict[str, Any]]:
    """Return the chat presets, none if their model is not offered."""
    if CHAT_MODEL not in {entry.name for entry, *_ in list_offered_models()}:
        return []
    kinds = params_of(strategy.config)
    return [
        {
            "name": talk.name,
            "prompt": None,
            "messages": talk.messages,
            "template": {},
            "seed": talk.seed,
            "model": CHAT_MODEL,
            "shows": talk.shows,
            "recorded": _recorded_name(strategy.name, talk.name),
            "params": {n: controls.to_control(kinds[n], v) for n, v in talk.params.items()},
        }
        for talk in CHAT_PRESETS.get(strategy.name, ())
    ]


def _recorded_name(strategy: str, preset: str) -> str | None:
    """Return the gallery name of a preset's recorded run, None if there is none."""
    found = (e for e in gallery.list_entries() if (e.strategy, e.preset) == (strategy, preset))
    return next((entry.name for entry in found), None)


def _comparison_spec(preset: ComparePreset, recorded: str | None) -> dict[str, Any]:
    return {
        "key": preset.name,
        "name": preset.name,
        "prompt": preset.prompt,
        "shows": preset.shows,
        "recorded": recorded,
        "columns": [{"strategy": n, "params": v} for n, v in preset.columns],
    }
