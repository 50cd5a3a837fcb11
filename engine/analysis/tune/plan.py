"""A plan: the prompts, settings and seeds of a table, checked before the first run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from engine.analysis.likelihood import parse_judge
from engine.analysis.tune.answer_checks import AnswerChecks
from engine.analysis.tune.measures import DEFAULT_MEASURES, MEASURES, SPEED
from engine.declare.params import params_of
from engine.errors import EngineError, ParameterError, suggest_name
from engine.live import check_values, is_on_server
from engine.messages import Message
from engine.number_text import format_value
from engine.run.request import DecodeRequest
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from engine.strategies.parameter_conditions import is_seed_used

MAX_PROMPTS = 50
MAX_SETTINGS = 24
MAX_SEEDS = 10


@dataclass(frozen=True)
class TunePrompt:
    """A prompt of a table: a text or a conversation, and the answer that is expected of it."""

    prompt: str | None = None
    messages: Sequence[Mapping[str, Any]] | None = None
    reference: str | None = None

    @property
    def label(self) -> str:
        """The text, or the last message."""
        if self.messages:
            return str(self.messages[-1].get("content", ""))
        return self.prompt or ""


@dataclass(frozen=True)
class TuneSetting:
    """A strategy with its parameters, one row of a table."""

    strategy: str
    params: Mapping[str, object] = field(default_factory=dict[str, object])
    name: str = ""
    """What the reader calls it; empty for a name made of what differs, see ``TunePlan.names``."""

    @property
    def is_random(self) -> bool:
        """Whether another seed can give another text."""
        return is_seed_used(STRATEGIES[self.strategy], self.params)


@dataclass(frozen=True, order=True)
class Cell:
    """One run of a table: places in the plan's prompts and settings, and the seed."""

    prompt: int
    setting: int
    seed: int


@dataclass(frozen=True)
class TunePlan:
    """What a table runs and measures; ``check_plan`` says whether it can.

    Attributes:
        prompts: 1 to MAX_PROMPTS.
        settings: 1 to MAX_SETTINGS.
        seeds: 1 to MAX_SEEDS different seeds.
        measures: names of ``MEASURES``.
        checks: pattern, schema and way of comparing with the references.
        model: as in DecodeRequest; it may be behind an address.
        judge: model whose perplexity of the texts is measured; None for the writing model. A
            server measures none.
        template: as in DecodeRequest, for conversations.
    """

    prompts: Sequence[TunePrompt]
    settings: Sequence[TuneSetting]
    seeds: Sequence[int] = (0, 1, 2)
    measures: Sequence[str] = DEFAULT_MEASURES
    checks: AnswerChecks = field(default_factory=AnswerChecks)
    model: str | None = None
    judge: str | None = None
    template: Mapping[str, object] | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name for each setting, of its strategy and what differs from the other settings."""
        return tuple(one.name or _describe_setting(one, self.settings) for one in self.settings)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every run, prompt by prompt; a setting whose text no seed changes runs once."""
        return tuple(
            Cell(prompt, place, seed)
            for prompt in range(len(self.prompts))
            for place, setting in enumerate(self.settings)
            for seed in (self.seeds if setting.is_random else self.seeds[:1])
        )

    @property
    def runs_alone(self) -> bool:
        """Whether runs may share no passes: the seconds of shared passes belong to no one run."""
        return SPEED in self.measures

    @property
    def is_on_server(self) -> bool:
        """Whether a server computes the model."""
        return is_on_server(self.request(Cell(0, 0, 0)))

    def request(self, cell: Cell) -> DecodeRequest:
        """Return the request of a run."""
        prompt, setting = self.prompts[cell.prompt], self.settings[cell.setting]
        return DecodeRequest(
            setting.strategy,
            self.model,
            prompt.prompt,
            params=setting.params,
            seed=cell.seed,
            messages=prompt.messages,  # type: ignore[arg-type]
            template=self.template,
            top_candidates=1,
        )

    def cell_key(self, cell: Cell) -> str:
        """Return what a stored run must agree in: everything that its text and measures depend on."""
        # Values and no places: stored runs are found again after prompts or settings were reordered.
        prompt, setting = self.prompts[cell.prompt], self.settings[cell.setting]
        made_of = (
            (self.model, self.template, self.judge, self.runs_alone, list(self.measures)),
            (prompt.prompt, prompt.messages, prompt.reference),
            (setting.strategy, dict(setting.params), cell.seed),
            (self.checks.pattern, self.checks.schema, self.checks.match),
        )
        return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()


def check_plan(plan: TunePlan) -> TunePlan:
    """Return the plan if every run of it can begin.

    Raises:
        EngineError: one sentence with the value and what is allowed.
    """
    _check_count("prompts", len(plan.prompts), MAX_PROMPTS)
    _check_count("settings", len(plan.settings), MAX_SETTINGS)
    _check_count("seeds", len(plan.seeds), MAX_SEEDS)
    if len(set(plan.seeds)) < len(plan.seeds):
        raise ParameterError("seeds", list(plan.seeds), "each seed may be there once")
    for name in plan.measures:
        if name not in MEASURES:
            allowed = Message("it must be one of {choices}", choices=", ".join(MEASURES))
            raise ParameterError("measures", name, allowed, suggest_name(name, MEASURES) or "")
    _check_answers(plan)
    if plan.judge is not None:
        parse_judge(plan.judge)
    # Each setting with the first prompt, and each prompt with the first setting: every pair would be
    # hundreds of checks.
    for place, setting in enumerate(plan.settings):
        _check_setting(plan, place, setting)
    for place in range(len(plan.prompts)):
        try:
            check_values(plan.request(Cell(place, 0, plan.seeds[0])))
        except EngineError as error:
            raise EngineError("Prompt {n}: {error}", n=place + 1, error=str(error)) from None
    runs, most = len(plan.cells), SETTINGS.max_public_tune_runs
    if SETTINGS.public and runs > most:
        raise EngineError(
            "This table has {runs} runs, and a public playground allows {most}. Leave out prompts, "
            "settings or seeds.",
            runs=runs,
            most=most,
        )
    return plan


def _check_answers(plan: TunePlan) -> None:
    plan.checks.check()
    for prompt in plan.prompts:
        if prompt.reference is not None:
            plan.checks.check_reference(prompt.reference)


def _check_count(name: str, count: int, most: int) -> None:
    if not 1 <= count <= most:
        raise ParameterError(name, count, Message("a table takes 1 to {most}", most=most))


def _check_setting(plan: TunePlan, place: int, setting: TuneSetting) -> None:
    """Raise EngineError if a setting cannot run, or more than one text would come of a run."""
    try:
        returned = check_values(plan.request(Cell(0, place, plan.seeds[0])))
        if returned != 1:
            raise ParameterError("num_return_sequences", returned, "a run of a table gives 1 text")
    except EngineError as error:
        raise EngineError("Setting {n}: {error}", n=place + 1, error=str(error)) from None


def _describe_setting(setting: TuneSetting, settings: Sequence[TuneSetting]) -> str:
    """Return a strategy's title, and the values that not all settings have."""
    strategy = STRATEGIES[setting.strategy]
    kinds = params_of(strategy.config)
    parts = [strategy.tab]
    for name, value in setting.params.items():
        if any(other.params.get(name) != value for other in settings):
            label = kinds[name].label if name in kinds else name
            shown = format_value(value) if isinstance(value, float) else str(value)
            parts.append(f"{label.lower()} {shown}")
    return ", ".join(parts)
