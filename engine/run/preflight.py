"""Finds out what a model is and costs before anything large is downloaded or loaded."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import shutil
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from engine.declare.weights import NF4, TORCH, WeightsParams, parse_size
from engine.errors import ModelError, ParameterError
from engine.messages import Message
from engine.models import files, hub_lookup, sizes
from engine.models import weights as model_weights
from engine.models.adapter_build import build_meta_base
from engine.models.adapter_merge import check_can_merge
from engine.models.devices import default_device
from engine.models.disk_space import no_space_message
from engine.models.gguf_conversion import check_can_convert
from engine.models.gguf_facts import read_gguf_facts
from engine.models.loading import LoadedModel
from engine.models.meta_model import build_from_config, build_meta_model
from engine.models.model_types import Model
from engine.models.openvino.graph_conversion import conversion_refusal
from engine.models.readers import family_of, read_speech_choices
from engine.run.model_facts import ModelFacts, describe_weights, format_bytes
from engine.settings import SETTINGS
from engine.sources.catalogue import CATALOGUE, install_path
from engine.sources.hub_cache import DOWNLOAD_PATTERNS
from engine.sources.lora_adapters import (
    check_merge_allowed,
    check_weights,
    has_adapter_files,
    read_adapter,
    tokenizer_files,
)
from engine.sources.source import Adapter, Embedded, Gguf, Hub, Source
from engine.strategies import STRATEGIES
from engine.strategies.compatibility import incompatibility_reason
from engine.temporary_folder import TemporaryFolder

_MAX_README_BYTES = 1_000_000
_MAX_CHARS = 60
_SMALLER_WEIGHTS = ({"dtype": "bfloat16"}, {"quantization": "8bit"}, {"quantization": "4bit"})
"""Smaller precisions to suggest when memory is short, least lossy first."""


def preflight(source: Source, weights: WeightsParams | None = None) -> ModelFacts:
    """Return what a model is and costs; no weights are read or downloaded.

    Args:
        source: where the model comes from.
        weights: requested precision; None for this machine's default.

    Raises:
        BusyError: too many hub lookups are running.
        ModelError: the model is not allowed or not found, or the hub did not answer.
        ParameterError: this deployment does not offer the precision.
    """
    device = default_device()
    settings = model_weights.with_default_dtype(weights or model_weights.DEFAULT, device)
    model_weights.check_weights_allowed(settings, device)
    model_weights.check_devices(settings)
    source.check_offered()
    folder = source.folder()
    with TemporaryFolder("preflight") as small:
        match source:
            case Gguf():
                return _check_gguf(source, folder, small, settings)
            case Adapter():
                return _check_adapter(source, small, settings)
            case Hub() if folder is None:
                return _check_hub_model(source, source, small, settings)
            case _:
                return _check_local_model(source, source.require_folder(), settings)


def _check_local_model(source: Source, folder: str, weights: WeightsParams) -> ModelFacts:
    """Return the facts of a model whose files are on this machine."""
    name, entry = source.name, CATALOGUE.get(source.name)
    found = ModelFacts(
        name,
        "embedded" if isinstance(source, Embedded) else "here",
        describe_weights(weights),
        revision=source.revision(folder),
        licence=entry.licence if entry else _read_licence(folder),
        chat_template=_has_template(_template_files(folder)),
        disk_bytes=_disk_bytes(folder),
    )
    try:
        config = files.check_folder(folder)
        model = build_meta_model(name, folder, config)[1]
        values = sizes.count_values(name, folder)
    except ModelError as error:
        return _mark_unusable(found, str(error))
    return _add_class_facts(_add_speech_facts(found, model, folder), model, values, weights)


def _check_gguf(source: Gguf, folder: str | None, small: str, weights: WeightsParams) -> ModelFacts:
    """Return the facts of a GGUF file: from its header, and from its converted folder if any."""
    name = source.name
    try:
        check_can_convert(name)
        facts = read_gguf_facts(name, small if folder is None else None)
    except ModelError as error:
        if folder is not None:
            return _check_local_model(source, folder, weights)
        return _mark_unusable(ModelFacts(name, "unmade", describe_weights(weights)), str(error))
    if folder is not None:
        found = _check_local_model(source, folder, weights)
        return dataclasses.replace(found, gguf=facts, licence=found.licence or facts.licence)
    found = ModelFacts(
        name,
        "unmade",
        describe_weights(weights),
        gguf=facts,
        parameters=facts.values,
        context_length=facts.context_length,
        licence=facts.licence,
        chat_template=facts.chat_template,
    )
    found = _add_build_size(found, facts.values)
    try:
        if facts.problem is not None:
            raise ModelError(facts.problem)
        model = build_from_config(name, small, files.check_config(small), lambda: facts.values)[1]
    except ModelError as error:
        return _mark_unusable(found, str(error))
    return _add_class_facts(found, model, facts.values, weights)


def _check_adapter(source: Adapter, small: str, weights: WeightsParams) -> ModelFacts:
    """Return the facts of a LoRA adapter; from the hub's listing if it is not fetched yet."""
    folder = source.adapter_folder()
    if folder is None and isinstance(source.place, Hub):
        return _check_hub_model(source, source.place, small, weights)
    assert folder is not None
    licence = _read_licence(folder)
    found = ModelFacts(source.name, "unmade", describe_weights(weights), licence=licence)
    return _add_adapter_facts(found, source, folder, weights)


def _add_adapter_facts(
    found: ModelFacts, adapter: Adapter, folder: str, weights: WeightsParams
) -> ModelFacts:
    """Add a LoRA adapter's facts: from its adapter_config.json, and from its base if local."""
    place = adapter.place.name
    try:
        found = dataclasses.replace(found, adapter=read_adapter(place, folder))
        check_merge_allowed(place)
        if found.where != "hub":
            check_weights(place, folder)
        base = adapter.find_base(folder)
        found = dataclasses.replace(found, base=base.name)
        under = base.folder()
        if under is None:
            return _add_notes(found, _format_missing_base(adapter, base))
        model = build_meta_base(place, folder, base.name, under)
        values = sizes.count_values(base.name, under)
    except ModelError as error:
        return _mark_unusable(found, str(error))
    template = _has_template(tokenizer_files(folder, under))
    found = _add_speech_facts(dataclasses.replace(found, chat_template=template), model, under)
    merged = adapter.folder()
    if merged is None:
        return _add_class_facts(
            _add_build_size(_add_merge_note(found, place), values), model, values, weights
        )
    found = dataclasses.replace(
        found, where="here", revision=Path(merged).name, disk_bytes=_disk_bytes(merged)
    )
    return _add_class_facts(found, model, values, weights)


def _format_missing_base(adapter: Adapter, base: Source) -> str:
    if isinstance(base, Hub):
        return str(adapter.missing_base_error(base.name, base.download_hint()))
    return Message(
        "Its base model {base} is prepared first. The adapter's effect is known after that.",
        base=base.name,
    )


def _add_merge_note(found: ModelFacts, place: str) -> ModelFacts:
    try:
        check_can_merge(place)
    except ModelError as error:
        return _add_notes(found, str(error))
    return found


def _add_build_size(found: ModelFacts, values: int) -> ModelFacts:
    """Add the disk size of the float32 folder to be built from a file or an adapter."""
    needed, place = 4 * values, install_path("")
    free = shutil.disk_usage(next(p for p in (place, *place.parents) if p.exists())).free
    found = dataclasses.replace(found, disk_bytes=needed, fits_disk=needed <= free)
    return (
        found if needed <= free else _add_notes(found, no_space_message(found.name, needed, free))
    )


def _check_hub_model(source: Source, hub: Hub, small: str, weights: WeightsParams) -> ModelFacts:
    """Return the facts of a hub model, from the hub's listing and its small config files.

    Args:
        source: the model: the repository itself, or an adapter from it.
        hub: the repository.
        small: a folder for its small files.
        weights: the requested precision.
    """
    facts = hub_lookup.look_up_model(hub, small)
    name, entry = source.name, CATALOGUE.get(source.name)
    room = facts.disk_bytes <= facts.room_bytes
    found = ModelFacts(
        name,
        "hub",
        describe_weights(weights),
        revision=facts.revision,
        parameters=facts.values,
        licence=facts.licence or (entry.licence if entry else None),
        gated=facts.gated,
        private=facts.private,
        disk_bytes=facts.disk_bytes,
        fits_disk=room,
        notes=() if room else (no_space_message(name, facts.disk_bytes, facts.room_bytes),),
    )
    if facts.problem is not None:
        return _add_notes(found, facts.problem)
    template = facts.template_file or _has_template(_template_files(small))
    found = dataclasses.replace(found, chat_template=template)
    if not facts.weights_bytes:
        return _mark_unusable(dataclasses.replace(found, fits_disk=None), files.NO_WEIGHTS_MESSAGE)
    if isinstance(source, Hub) and has_adapter_files(small):
        source = Adapter(name, hub)
    if isinstance(source, Adapter):
        return _add_adapter_facts(found, source, small, weights)
    if not (Path(small) / hub_lookup.CONFIG).is_file():
        return _mark_unusable(
            found, Message("{name} has no config.json that says what it is.", name=name)
        )
    try:
        config = files.check_config(small)
        # The smallest stored value has 4 bits, so this bounds what a config.json may claim.
        model = build_from_config(name, small, config, lambda: 2 * facts.weights_bytes)[1]
    except ModelError as error:
        return _mark_unusable(found, str(error))
    own = sum(parameter.numel() for parameter in model.parameters())
    found = _add_speech_facts(found, model, small)
    return _add_class_facts(found, model, facts.values or own, weights)


def _add_class_facts(
    found: ModelFacts, model: Model, values: int, weights: WeightsParams
) -> ModelFacts:
    """Add the facts of a model that was built without memory for its weights."""
    stands = LoadedModel(model, name=found.name)
    reasons = {s.name: incompatibility_reason(s, stands) for s in STRATEGIES.values()}
    why = None if weights.backend == TORCH else conversion_refusal(model)
    if why is not None:
        return _mark_unusable(
            found,
            Message(
                "{name} cannot be converted for {backend}: {why}.",
                name=found.name,
                backend=weights.backend,
                why=why,
            ),
        )
    needed = sizes.estimate_bytes(model, values, weights)
    note = _format_memory_shortage(model, values, weights)
    return _add_notes(
        dataclasses.replace(
            found,
            model_type=str(model.config.model_type)[:_MAX_CHARS],
            architecture=type(model).__name__,
            cannot_serve={strategy: reason for strategy, reason in reasons.items() if reason},
            parameters=values,
            context_length=stands.context_length,
            takes=tuple(sorted(stands.capabilities.takes)),
            needs=stands.capabilities.needs,
            memory_bytes=round(needed),
            fits_memory=note is None,
        ),
        *filter(None, (note,)),
    )


def _add_speech_facts(found: ModelFacts, model: Model, folder: str) -> ModelFacts:
    """Add the options of a speech model, read from the folder's generation_config.json."""
    family = family_of(model)
    if family is None or not family.is_speech_model:
        return found
    return dataclasses.replace(found, speech=read_speech_choices(folder))


def _format_memory_shortage(model: Model, values: int, weights: WeightsParams) -> str | None:
    """Return why a model's weights exceed the memory budget and what would fit, else None."""
    budget = SETTINGS.max_model_memory_gb
    needed = sizes.estimate_bytes(model, values, weights)
    limits = sum(parse_size(size) for _, size in weights.max_memory or ())
    if (min(needed, limits) if weights.max_memory else needed) <= budget * 1e9:
        return None
    shortage = {
        "size": format_bytes(needed),
        "held": describe_weights(weights),
        "most": f"{budget:g}",
    }
    for other in _iter_smaller_weights(weights):
        smaller = sizes.estimate_bytes(model, values, other)
        if smaller <= budget * 1e9:
            return Message(
                "It needs {size} as {held}, and {most} GB are for models here: {other} would fit "
                "({smaller}).",
                **shortage,
                other=describe_weights(other),
                smaller=format_bytes(smaller),
            )
    return Message(
        "It needs {size} as {held}, but models may use {most} GB here. No available number "
        "format would fit.",
        **shortage,
    )


def _iter_smaller_weights(weights: WeightsParams) -> Iterator[WeightsParams]:
    """Yield smaller precisions that this machine and deployment offer."""
    for change in _SMALLER_WEIGHTS:
        other = dataclasses.replace(
            weights,
            **{"backend": TORCH, "quantization": None, "device_map": None, "max_memory": None}
            | change,
        )
        if other.quantization != "4bit":
            other = dataclasses.replace(
                other,
                bnb_4bit_quant_type=NF4,
                bnb_4bit_use_double_quant=False,
                bnb_4bit_compute_dtype=None,
            )
        if other.quantization and importlib.util.find_spec("bitsandbytes") is None:
            continue
        try:
            model_weights.check_weights_allowed(other, default_device())
        except ParameterError:
            continue
        yield other


def _mark_unusable(found: ModelFacts, reason: str) -> ModelFacts:
    """Set the reason why no strategy can use a model."""
    return _add_notes(
        dataclasses.replace(found, cannot_serve=dict.fromkeys(STRATEGIES, reason)), reason
    )


def _add_notes(found: ModelFacts, *notes: str) -> ModelFacts:
    return dataclasses.replace(found, notes=(*found.notes, *notes))


def _read_licence(folder: str) -> str | None:
    """Return the licence from the front matter of a folder's README."""
    from huggingface_hub import metadata_load

    path = Path(folder) / "README.md"
    try:
        if path.stat().st_size > _MAX_README_BYTES:
            return None
        licence = (metadata_load(path) or {}).get("license")
    except Exception:  # a README may contain any invalid YAML
        return None
    return str(licence)[:_MAX_CHARS] if licence else None


def _template_files(folder: str) -> list[Path]:
    return [Path(folder) / hub_lookup.TEMPLATE, Path(folder) / hub_lookup.TOKENIZER]


def _has_template(paths: Iterable[Path]) -> bool:
    """Return whether tokenizer files contain a chat template."""
    there = {path.name: path for path in paths if path.is_file()}
    if hub_lookup.TEMPLATE in there:
        return True
    try:
        found = json.loads(there[hub_lookup.TOKENIZER].read_bytes())
        return bool(found.get("chat_template"))
    except (KeyError, OSError, ValueError, AttributeError, RecursionError):
        return False


def _disk_bytes(folder: str) -> int:
    """Return the size of the files in a folder that a run reads, in bytes."""
    return sum(
        path.stat().st_size
        for path in Path(folder).iterdir()
        if path.is_file() and any(fnmatch(path.name, pattern) for pattern in DOWNLOAD_PATTERNS)
    )
