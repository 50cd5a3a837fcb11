"""The one tab builder: everything a strategy's tab shows follows from its declaration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from engine.declare.groups import FOLDED, GROUPS, MAIN
from engine.declare.params import defaults_of, params_of
from engine.models.catalogue import CATALOGUE, drafts_for
from engine.run.request import DecodeRequest
from engine.strategies.base import Preset, Strategy
from playground import controls, raw
from playground.configs import build_panel
from playground.guard import guarded, sentence
from playground.scripts import on_load
from playground.stream import JOURNAL, stream
from playground.zerogpu import on_gpu

QUEUE = "model"
_CORE_VIEWS = ("status", "strip", "scrub")


@dataclass
class Tab:
    """The controls of one strategy, in the order its handlers receive them."""

    strategy: Strategy
    tab: Any
    prompt: Any
    model: Any
    assistant: Any
    seed: Any
    widgets: dict[str, Any]
    run: Any
    panel: Any = None

    @property
    def inputs(self) -> list[Any]:
        """All controls a run reads."""
        return [self.prompt, self.model, self.assistant, self.seed, *self.widgets.values()]

    def request(
        self, prompt: Any, model: Any, assistant: Any, seed: Any, *values: Any
    ) -> DecodeRequest:
        """Make the request the controls describe; only what differs from the default is named."""
        kinds, defaults = params_of(self.strategy.config), defaults_of(self.strategy.config)
        params = {}
        for (name, kind), value in zip(kinds.items(), values, strict=True):
            given = controls.read(name, kind, value)
            if isinstance(given, list) and tuple(given) == defaults[name]:
                continue
            if given != defaults[name] or type(given) is not type(defaults[name]):
                params[name] = given
        whole = controls.whole(seed)
        return DecodeRequest(
            self.strategy.name,
            model,
            prompt,
            params=_exact(params, kinds, defaults),
            seed=whole,
            assistant=assistant or None,
        )

    def updates(self, request: DecodeRequest) -> list[Any]:
        """Return control values that show a request, in the order of ``inputs``."""
        kinds, defaults = params_of(self.strategy.config), defaults_of(self.strategy.config)
        values = {**defaults, **request.params}
        model = request.model or self.strategy.default_model
        assistant = request.assistant or self.strategy.default_assistant
        shown = [controls.show(kind, values[name]) for name, kind in kinds.items()]
        return [request.prompt, model, assistant, request.seed, *shown]


def _exact(params: dict[str, Any], kinds: Any, defaults: dict[str, Any]) -> dict[str, Any]:
    """Drop whole-number floats that equal their default (sliders send 1 for 1.0)."""
    flags = {n for n in params if isinstance(params[n], bool) or isinstance(defaults[n], bool)}
    return {n: v for n, v in params.items() if n in flags or v != defaults[n]}


def build_tab(strategy: Strategy, bus: Any) -> Tab:
    """Build a strategy's tab and wire its Run and Stop."""
    name = strategy.name
    with gr.Tab(strategy.title, id=name, elem_id=f"tab-{name}") as page:
        gr.HTML(_about(strategy), elem_classes="dp-about")
        with gr.Row(equal_height=False, elem_classes="dp-columns"):
            with gr.Column(min_width=0, elem_classes="dp-ask"):
                first = _first(strategy)
                prompt = raw.Textbox(
                    first.prompt, label="Prompt", lines=3, max_lines=8, elem_id=f"{name}-prompt"
                )
                with gr.Row():
                    run = gr.Button("Run", variant="primary", elem_id=f"{name}-run")
                    stop = gr.Button("Stop", elem_id=f"{name}-stop")
                slot = gr.Textbox(visible=False)
            with gr.Column(min_width=0, elem_classes="dp-right"):
                _stage(strategy)
            with gr.Column(min_width=0, elem_classes="dp-settings"):
                gr.HTML("<h3 class='dp-label'>Try</h3>")
                presets = [
                    gr.Button(p.name, size="sm", elem_classes="dp-preset") for p in strategy.presets
                ]
                model = raw.Dropdown(
                    _models(strategy),
                    value=strategy.default_model,
                    label="Model",
                    allow_custom_value=True,
                    elem_id=f"{name}-model",
                )
                assistant = _assistant(strategy)
                seed = raw.Number(
                    first.seed, label="Seed", precision=0, minimum=0, elem_id=f"{name}-seed"
                )
                widgets = _widgets(strategy)
                panel = build_panel(strategy)
    tab = Tab(strategy, page, prompt, model, assistant, seed, widgets, run, panel)
    _wire(tab, bus, stop, slot, presets)
    return tab


def _first(strategy: Strategy) -> Preset:
    """What the tab shows before anything was chosen."""
    return strategy.presets[0] if strategy.presets else Preset("", "Once upon a time,", {}, "")


def _about(strategy: Strategy) -> str:
    # Declarations are ours, not a user's: plain text without markup characters.
    heading = f"<h2 class='dp-sr'>{strategy.title}</h2>"
    return f"{heading}<p>{strategy.summary} <cite>Source: {strategy.paper}.</cite></p>"


def _models(strategy: Strategy) -> list[tuple[str, str]]:
    wanted = ("target", "seq2seq") if strategy.assistant == "none" else ("target",)
    entries = [e for e in CATALOGUE.values() if e.role in wanted and e.available]
    return [(f"{e.title} · {e.parameters} · {e.licence}", e.name) for e in entries]


def _assistant(strategy: Strategy) -> Any:
    return raw.Dropdown(
        _drafts(strategy, strategy.default_model),
        label="Draft model",
        value=strategy.default_assistant,
        visible=strategy.assistant != "none",
        allow_custom_value=True,
        elem_id=f"{strategy.name}-assistant",
    )


def _drafts(strategy: Strategy, target: Any) -> list[tuple[str, str]]:
    entries = drafts_for(target if isinstance(target, str) else "", strategy.assistant)
    return [(f"{e.title} · {e.parameters} · {e.licence}", e.name) for e in entries]


def _widgets(strategy: Strategy) -> dict[str, Any]:
    kinds, defaults = params_of(strategy.config), defaults_of(strategy.config)
    first = {**defaults, **_first(strategy).params}
    made = {}

    def add(names: list[str]) -> None:
        for name in names:
            element = f"{strategy.name}-{name}"
            made[name] = controls.widget(name, kinds[name], first[name], element)

    for group in GROUPS:
        names = [name for name, kind in kinds.items() if kind.group == group]
        if group == MAIN:
            add(names)
        elif names:
            with gr.Accordion(FOLDED[group], open=False):
                add(names)
    return {name: made[name] for name in kinds}


def visuals_of(names: tuple[str, ...]) -> list[str]:
    """Return the views of a stage in their order: the common ones, the strategy's, the chart."""
    return [*_CORE_VIEWS, *sorted(names, key=lambda name: name == "chart"), "family", "export"]


def _stage(strategy: Strategy) -> None:
    visuals = visuals_of(strategy.visuals)
    options = json.dumps({"strategy": strategy.name, "visuals": visuals})
    gr.HTML(
        "",
        html_template='<div class="dp-stage"></div>',
        elem_id=f"{strategy.name}-stage",
        js_on_load=on_load(f"p.mount(element.querySelector('.dp-stage'), {options}, trigger)"),
        apply_default_css=False,
    )


def _fitting(strategy: Strategy) -> Any:
    """Return the handler that offers the drafts of a newly chosen target."""

    def offer(target: Any) -> Any:
        choices = _drafts(strategy, target)
        return gr.Dropdown(choices=choices, value=choices[0][1] if choices else None)

    return offer


def _wire(tab: Tab, bus: Any, stop: Any, slot: Any, presets: list[Any]) -> None:
    def start(*values: Any) -> Iterator[str]:
        try:
            request = tab.request(*values)
        except BaseException as error:
            raise gr.Error(sentence(error), print_exception=False) from None
        yield from stream(request)

    if tab.strategy.assistant != "none":
        tab.model.input(
            guarded(_fitting(tab.strategy)), tab.model, tab.assistant, api_visibility="private"
        )
    options = {
        "inputs": tab.inputs,
        "outputs": bus,
        "api_visibility": "private",
        "show_progress": "hidden",
        "concurrency_id": QUEUE,
        "concurrency_limit": 2,
    }
    tab.run.click(on_gpu(start), **options)
    tab.prompt.submit(on_gpu(start), **options)
    stop.click(
        guarded(JOURNAL.cancel),
        slot,
        None,
        concurrency_limit=None,
        api_visibility="private",
        js=f"() => playground.then((p) => p.runId('{tab.strategy.name}'))",
    )
    for button, preset in zip(presets, tab.strategy.presets, strict=True):
        button.click(
            lambda p=preset: tab.updates(_preset_request(tab, p)),
            None,
            tab.inputs,
            concurrency_limit=None,
            api_visibility="private",
            show_progress="hidden",
        )


def _preset_request(tab: Tab, preset: Preset) -> DecodeRequest:
    return DecodeRequest(
        tab.strategy.name, preset.model, preset.prompt, params=preset.params, seed=preset.seed
    )
