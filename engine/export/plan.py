"""Plan of the exported code of a run: its GenerationConfig, its call and, if needed, its loop."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.declare.bundled_loop import BundledLoop
from engine.declare.config import config_to_dict
from engine.declare.params import build_config
from engine.errors import EngineError, ExportError
from engine.models.capabilities import Capabilities
from engine.models.files import check_config
from engine.models.meta_model import build_meta_model
from engine.models.readers import family_of, load_processors
from engine.models.readers.families import PROMPTED
from engine.models.weights import weights_from_info
from engine.run.chat_request import check_template
from engine.run.generation import config_values, without_samplers
from engine.sandbox.folder import Method
from engine.sandbox.method_lookup import find_method, is_local_method
from engine.sources.build_key import SHA256, build_folder
from engine.sources.catalogue import install_path
from engine.sources.installable import INSTALLABLE
from engine.sources.source import Embedded, Hub, Installed, Source
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy
from engine.strategies.bundled_loops import find_capabilities, find_run_loop
from engine.strategies.compatibility import uses_cache
from engine.strategies.drafting_params import draft_model_settings
from engine.trace.records import MediaInfo, ModelInfo, Trace
from engine.trace.served_checks import require_local_run

_SUPPLIED_ARGUMENTS = ("recorder", "generator")
_DTYPES = ("float32", "bfloat16", "float16")
_COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
_PLAIN_TYPES = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class ConfigObject:
    """A configuration object that the code constructs: a class of transformers and its fields."""

    name: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class ScriptModel:
    """Where the code loads a model from."""

    info: ModelInfo
    place: str
    """A hub id or a folder; for embedded models relative to the playground's repository."""
    embedded: bool
    brought: bool = False
    converted: bool = False
    """Whether the folder was converted from a GGUF file or merged from a LoRA adapter."""
    revision: str | None = None
    """Branch, tag or commit in the model's name; None if it has none."""

    @property
    def arguments(self) -> list[str]:
        """Arguments naming the model in the short script, as code; a revision only if requested."""
        asked = [] if self.revision is None else [f"revision={self.revision!r}"]
        return [repr(self.place), *asked]


@dataclass(frozen=True)
class MediaSource:
    """How the code gives the model a picture or a sound.

    Attributes:
        info: its record in the trace.
        auto: name of transformers' class that loads the model.
        kind: a kind of readers.families: how the model receives it.
        encodes: whether an encoder reads it.
        whole: whether a processor inserts it into the text.
        begin: speech models: position of the first token of the text.
    """

    info: MediaInfo
    auto: str
    kind: str
    encodes: bool
    whole: bool = False
    begin: int = 0


@dataclass(frozen=True)
class Plan:
    """Everything that the exported code needs to know about a run.

    Attributes:
        trace: the run.
        strategy: its declaration.
        values: GenerationConfig fields that differ from transformers' own defaults.
        own: the exported loop; None if generate() gives the same tokens.
        loop_values: keyword arguments of that loop, plain values.
        draft_values: fields of the draft model's generation configuration.
        method: the exported custom method; None for a built-in strategy.
        use_cache: whether the run used a cache.
        config: the strategy's validated config.
        media: how the model receives a picture or a sound; None for text only.
        attention: attention implementation of the loaded model.
        names_encoder_depth: see ``Capabilities``.
    """

    trace: Trace
    strategy: Strategy
    config: Any
    values: Mapping[str, Any]
    model: ScriptModel
    assistant: ScriptModel | None = None
    own: BundledLoop | None = None
    loop_values: Mapping[str, Any] = field(default_factory=dict)
    draft_values: Mapping[str, Any] = field(default_factory=dict)
    use_cache: bool = True
    method: Method | None = None
    media: MediaSource | None = None
    attention: str = "sdpa"
    names_encoder_depth: bool = False

    @property
    def auto(self) -> str:
        """Name of transformers' class that loads the model."""
        if self.media is not None:
            return self.media.auto
        many = self.model.info.is_encoder_decoder
        return "AutoModelForSeq2SeqLM" if many else "AutoModelForCausalLM"

    @property
    def has_folder(self) -> bool:
        """Whether the export includes a folder with a loop or a method."""
        return self.own is not None or self.method is not None

    @property
    def needs_tokenizers(self) -> bool:
        """Whether the call takes the tokenizers of both models."""
        return self.strategy.assistant == "any_tokenizer"

    @property
    def has_native_draft(self) -> bool:
        """Whether transformers itself drafts with a model or with the model's first layers."""
        return bool(self.draft_values) and self.own is None

    @property
    def folder_name(self) -> str:
        """Name of the custom_generate folder."""
        return self.method.name if self.method else f"{self.strategy.name}_loop"


def plan_export(trace: Trace) -> Plan:
    """Return the plan of a run's exported code.

    Raises:
        ExportError: the run cannot be written as code.
    """
    require_local_run(trace)
    if trace.strategy not in STRATEGIES:
        raise ExportError(
            "There is no strategy {strategy} here to write code for.",
            strategy=repr(trace.strategy[:40]),
        )
    strategy = STRATEGIES[trace.strategy]
    if strategy.no_code:
        raise ExportError(
            "{title} cannot be written as code: {why}.", title=strategy.title, why=strategy.no_code
        )
    config = _build_config(strategy, trace)
    try:
        check_template(trace.template)
    except EngineError as error:
        raise ExportError(
            "The run's conversation cannot be written as code: {error}", error=error
        ) from None
    can = find_capabilities(trace.model.id)
    own = find_run_loop(strategy, config, trace, can)
    values = _generation_values(strategy, config, own)
    return Plan(
        trace=trace,
        strategy=strategy,
        config=config,
        values=values,
        model=_model_source(trace.model),
        assistant=_model_source(trace.assistant) if trace.assistant else None,
        own=own,
        loop_values=_loop_arguments(own, config)
        if own
        else dict(trace.config.get("arguments") or {}),
        method=_recorded_method(trace),
        draft_values=draft_model_settings(config),
        use_cache=_has_cache(strategy, trace.model.id, can),
        media=_media_source(trace),
        attention="sdpa" if can is None else can.attention,
        names_encoder_depth=can is not None and can.names_encoder_depth,
    )


def _media_source(trace: Trace) -> MediaSource | None:
    """Return how a run's model receives its picture or sound; None for text only.

    Raises:
        ExportError: the model is not on this machine, or the run is a branch of a speech model.
    """
    if not trace.media:
        return None
    name, (info, *_) = trace.model.id, trace.media
    try:
        source = Source.find(name)
        folder = None if source is None else source.folder()
        found = None if folder is None else build_meta_model(name, folder, check_config(folder))
    except EngineError as error:
        raise ExportError("The run cannot be written as code: {error}", error=error) from None
    family = None if found is None else family_of(found[1])
    if found is None or folder is None or family is None:
        raise ExportError(
            "The model {name} is not on this machine, so how it is given a picture or a "
            "sound is not known.",
            name=repr(name[:60]),
        )
    whole = load_processors(name, folder).whole is not None and family.kind == PROMPTED
    # A branch's prompt includes its parents' text after the forced beginning; no trace records where.
    if family.is_speech_model and trace.parent is not None:
        raise ExportError("A branch of a speech model's run cannot be written as code.")
    begin = len(trace.prompt_ids)
    return MediaSource(info, found[0].__name__, family.kind, family.encodes, whole, begin)


def _recorded_method(trace: Trace) -> Method | None:
    """Return the run's custom method; None for a built-in strategy.

    Raises:
        ExportError: the method is missing, or its code has changed since (its hash differs).
    """
    if trace.method is None:
        return None
    name, sha256 = trace.method.name, trace.method.sha256
    if sha256 is None:
        raise ExportError("The method was a Python function, which a trace cannot hold.")
    if trace.method.revision is not None and "@" not in name:
        name = f"{name}@{trace.method.revision}"
    if not is_local_method(name):
        raise ExportError(
            "The method {name} is not on this machine, so its code cannot be included.", name=name
        )
    try:
        found = find_method(name).method
    except EngineError as error:
        raise ExportError("The method cannot be written down: {error}", error=error) from None
    if found.sha256 != sha256:
        raise ExportError(
            "The code of {name} has changed since the run, so it cannot be written down.", name=name
        )
    return found


def _has_cache(strategy: Strategy, model: str, can: Capabilities | None) -> bool:
    """Return whether a run used a cache; True if the model is unknown on this machine.

    Raises:
        ExportError: generate() cannot draft for the model.
    """
    if can is None:
        return True
    if "rewind" in strategy.needs and can.has_cache and not can.can_crop:
        raise ExportError(
            "{title} with {model} cannot be written as code: its running state has to be "
            "put back after a rejected token, and generate() refuses to draft for such a "
            "model.",
            title=strategy.title,
            model=model,
        )
    return uses_cache(strategy, can)


def _build_config(strategy: Strategy, trace: Trace) -> Any:
    values = {name: value for name, value in trace.config.items() if value is not None}
    # A trace records a Python function as the text "<callable …>".
    for name, value in values.items():
        if isinstance(value, str) and value.startswith("<callable "):
            raise ExportError("{name} was a Python object, which a trace cannot hold.", name=name)
    try:
        return build_config(strategy.config, values, strategy.name)
    except EngineError as error:
        raise ExportError(
            "The run's parameters do not fit {name}: {error}", name=strategy.name, error=error
        ) from None


def _generation_values(strategy: Strategy, config: Any, own: BundledLoop | None) -> dict[str, Any]:
    """Return the GenerationConfig fields that differ from transformers' defaults."""
    from transformers import GenerationConfig

    defaults = GenerationConfig._get_default_generation_params()
    select = strategy.generate_kwargs(config)
    values = {
        name: value
        for name, value in config_values(config).items()
        # None, 0 and False all mean off, whichever of them the default is.
        if name in ("max_new_tokens", "top_k") or (defaults.get(name) or False) != value
    }
    values = without_samplers(values, config, select)
    values |= {name: _plain_value(value) for name, value in select.items()}
    values.pop("eos_token_id", None)  # the code sets it separately, from the trace
    if own is None and strategy.loop is not None:
        # transformers moved these modes out; their fields make generate() load code from the hub.
        values = {n: v for n, v in values.items() if n not in ("dola_layers", "penalty_alpha")}
    return values


def _plain_value(value: Any) -> Any:
    """Return a plain value unchanged and an object of transformers as ``ConfigObject``."""
    if isinstance(value, (*_PLAIN_TYPES, list, tuple, dict)):
        return value
    # Our own subclasses are written as the class of transformers that they extend.
    for kind in type(value).__mro__:
        if kind.__module__.startswith("transformers."):
            return ConfigObject(kind.__name__, value.to_dict())
    raise ExportError(
        "A value of type {type} cannot be written as code.", type=type(value).__name__
    )


def _loop_arguments(own: BundledLoop, config: Any) -> dict[str, Any]:
    """Return the loop's keyword arguments from the config and from its declaration."""
    known = config_to_dict(config)
    kinds = inspect.signature(own.loop).parameters.values()
    wanted = [
        p.name for p in kinds if p.kind is p.KEYWORD_ONLY and p.name not in _SUPPLIED_ARGUMENTS
    ]
    return {name: known[name] for name in wanted if name in known} | dict(own.extra)


def _model_source(info: ModelInfo) -> ScriptModel:
    if info.dtype not in _DTYPES:
        raise ExportError(
            "The model's dtype {dtype} is not one the code can ask for.",
            dtype=repr(info.dtype[:40]),
        )
    # A trace may come from anyone: check what it says before it becomes code that others run.
    try:
        weights_from_info(info)
    except EngineError as error:
        raise ExportError(
            "The run's weights cannot be written as code: {error}", error=error
        ) from None
    # Folders of converted GGUF files and merged adapters are named by a SHA-256.
    if SHA256.fullmatch(info.revision or ""):
        place = str(build_folder(str(info.revision)))
        return ScriptModel(replace(info, revision=None), place, False, converted=True)
    if info.id.startswith("/") and info.id.lower().endswith(".gguf"):
        raise ExportError(
            "The model is a GGUF file, and the run does not say which: it has no sha256."
        )
    source = Source.find(info.id)
    if isinstance(source, Embedded):
        return ScriptModel(info, f"assets/models/{info.id}", True)
    if isinstance(source, Installed):
        return _fetched_source(info)
    if isinstance(source, Hub):
        return ScriptModel(info, source.repository, False, revision=source.asked_revision)
    # The folder may be on another machine, where the trace was made.
    if info.id.startswith("/"):
        return ScriptModel(info, info.id, False)
    raise ExportError(
        "The model {id} has no place to load it from: it was given as an object.",
        id=repr(info.id[:60]),
    )


def _fetched_source(info: ModelInfo) -> ScriptModel:
    """Return the hub repository if the weights came from the hub, else their local folder."""
    if _COMMIT.fullmatch(info.revision or ""):
        return ScriptModel(info, INSTALLABLE[info.id].hub, False)
    return ScriptModel(
        replace(info, revision=None), str(install_path(info.id)), False, brought=True
    )
