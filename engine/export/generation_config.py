"""Write a strategy's parameters as generation_config.json and read such a file by an allow-list.

transformers keeps any key of such a file as an attribute, including ``custom_generate``. Here a
file may set the parameters of a strategy only; other fields are refused or skipped, with a message.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.declare.config import config_to_dict
from engine.declare.params import build_config, defaults_of, params_of
from engine.errors import EngineError, ParameterError, TraceError, format_value
from engine.messages import Message
from engine.run.generation import config_values
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy
from engine.strategies.shared_params import SamplingParams
from engine.trace.checks import read_json_strict
from engine.trace.value_types import JsonValue
from engine.watermark.schemes import GreenList

MAX_BYTES = 100_000
BLOCK_KEY = "decoding_playground"
FILE_NAME = "generation_config.json"
SPECIAL_IDS = ("bos_token_id", "pad_token_id", "decoder_start_token_id")
_FILE_METADATA_FIELDS = ("transformers_version", "_from_model_config")
_CODE_FIELDS = (
    "custom_generate",
    "trust_remote_code",
    "auto_map",
    "custom_pipelines",
    "code_revision",
)
# GenerationConfig has these fields, but our loops take them as arguments.
_SEPARATE_ARGUMENTS = ("stop_strings", "num_beam_groups", "diversity_penalty", "force_words_ids")
_GREENLIST_FIELDS = tuple(field.name for field in dataclasses.fields(GreenList))


class ConfigError(EngineError):
    """A generation_config.json cannot be used; the message names the field."""

    code = "config"


@dataclass(frozen=True)
class ParsedConfig:
    """The parameters that a file sets.

    Attributes:
        strategy: the strategy for which the file was read.
        params: the parameters that the file sets, in normal form.
        left_out: a sentence for every known field that was not used.
    """

    strategy: str
    params: Mapping[str, Any]
    left_out: tuple[str, ...] = ()


def format_config(strategy: str, params: Mapping[str, object]) -> str:
    """Return a strategy's parameters, defaults included, as the text of a generation_config.json.

    Parameters without a field in GenerationConfig go into one block that transformers ignores.

    Raises:
        ConfigError: the strategy does not exist, or a value is a Python function.
        ParameterError: a value is out of range.
    """
    import transformers

    declared = _find_strategy(strategy)
    config = build_config(declared.config, params, strategy)
    values = {n: v for n, v in config_to_dict(config).items() if v is not None}
    for name, value in values.items():
        if isinstance(value, str) and value.startswith("<callable "):
            raise ConfigError("{name} is a Python function, which a file cannot hold.", name=name)
    known = {*config_values(config), *_SEPARATE_ARGUMENTS}
    standard = {n: v for n, v in values.items() if n in known and not _has_text(n, v)}
    select = declared.generate_kwargs(config)
    standard |= {n: v for n, v in select.items() if isinstance(v, (bool, int, float, str))}
    mark = select.get("watermarking_config")
    # transformers writes SynthID's object too, but cannot read it back.
    if mark is not None and values.get("scheme") == "greenlist":
        standard["watermarking_config"] = {n: values[n] for n in _GREENLIST_FIELDS}
    # A parameter of ours may have the name of a field that selects the mode.
    own = {n: v for n, v in values.items() if n not in standard or standard[n] != v}
    block = {"strategy": strategy, "params": own}
    about = {"transformers_version": transformers.__version__}
    return json.dumps({**standard, **about, BLOCK_KEY: block}, indent=2, allow_nan=False) + "\n"


def parse_config(data: bytes | str, strategy: str | None = None) -> ParsedConfig:
    """Read the text of a generation_config.json.

    Args:
        data: the content of the file.
        strategy: the strategy to read it for; None infers it from the fields.

    Raises:
        ConfigError: the text is no JSON, or a field is forbidden or belongs to another strategy.
        ParameterError: a value is out of range.
    """
    fields = parse_object(data)
    block = check_block(fields.pop(BLOCK_KEY, None))
    name = strategy or block.get("strategy") or infer_strategy(fields)
    declared = _find_strategy(name)
    if block.get("strategy", name) != name:
        raise ConfigError(
            "The file was saved for {strategy}, not for {name}.",
            strategy=block["strategy"],
            name=name,
        )
    if block:
        fields.pop("watermarking_config", None)  # the block says the same and more
    params: dict[str, Any] = {}
    left_out: list[str] = []
    for field, value in fields.items():
        _assign_field(declared, field, value, params, left_out, fields)
    kinds = params_of(declared.config)
    unknown = next((n for n in block.get("params", {}) if n not in kinds), None)
    if unknown is not None:
        raise ConfigError(
            "{name} has no parameter {unknown}, which the file sets.",
            name=name,
            unknown=repr(unknown[:40]),
        )
    params |= block.get("params", {})
    build_config(declared.config, params, name)
    normal = {n: kinds[n].check(n, v) for n, v in params.items()}
    return ParsedConfig(name, normal, tuple(left_out))


MODE_FIELDS = (
    "do_sample",
    "num_beams",
    "num_beam_groups",
    "force_words_ids",
    "constraints",
    "dola_layers",
    "penalty_alpha",
    "prompt_lookup_num_tokens",
    "assistant_early_exit",
    "watermarking_config",
)
"""Fields by which transformers chooses its way of decoding: those that ``infer_strategy`` reads."""


def infer_strategy(fields: Mapping[str, object]) -> str:
    """Return the strategy that matches the mode transformers would choose for these fields."""
    sampled = fields.get("do_sample") is True
    beams = _is_above(fields.get("num_beams"), 1)
    choices = (
        ("beam_search", fields.get("force_words_ids") or fields.get("constraints")),
        ("diverse_beam_search", beams and _is_above(fields.get("num_beam_groups"), 1)),
        ("beam_sampling", beams and sampled),
        ("beam_search", beams),
        ("dola", fields.get("dola_layers") is not None),
        ("contrastive_search", not sampled and _is_above(fields.get("penalty_alpha"), 0)),
        ("prompt_lookup", fields.get("prompt_lookup_num_tokens") is not None),
        ("early_exit", fields.get("assistant_early_exit") is not None),
        ("watermark", fields.get("watermarking_config") is not None),
        ("sampling", sampled),
    )
    return next((name for name, fits in choices if fits and name in STRATEGIES), "greedy")


def model_defaults(source: Source | None) -> dict[str, Any]:
    """Return the settings in a model's own generation_config.json, without special token ids.

    Only files on this machine are read; empty if there are none. Runs do not use these values
    unless a user requests it.

    Raises:
        ConfigError: the file is damaged.
    """
    folder = None if source is None else source.folder()
    path = None if folder is None else Path(folder) / FILE_NAME
    if path is None or not path.is_file():
        return {}
    # One byte more than allowed, so that ``parse_object`` notices a larger file.
    with path.open("rb") as file:
        fields = parse_object(file.read(MAX_BYTES + 1))
    ignored = (*SPECIAL_IDS, *_FILE_METADATA_FIELDS, "eos_token_id", BLOCK_KEY)
    return {n: v for n, v in fields.items() if n not in ignored and v is not None}


def parse_object(data: bytes | str) -> dict[str, Any]:
    """Return the fields of a generation_config.json.

    Raises:
        ConfigError: the text is no JSON object.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        fields = read_json_strict(raw, MAX_BYTES)
    except TraceError as error:
        raise ConfigError(str(error)) from None
    if not isinstance(fields, dict):
        raise ConfigError("A generation_config.json is a JSON object; this is something else.")
    return fields


def check_block(block: JsonValue) -> dict[str, Any]:
    """Return the playground's own block of a file, empty for None.

    Raises:
        ConfigError: it has another form.
    """
    if block is None:
        return {}
    if (
        not isinstance(block, dict)
        or not set(block) <= {"strategy", "params"}
        or not isinstance(block.get("strategy"), str)
    ):
        raise ConfigError("{block} must hold a strategy and its params.", block=BLOCK_KEY)
    if not isinstance(block.get("params", {}), dict):
        raise ConfigError("{block}.params must be an object.", block=BLOCK_KEY)
    return block


def _find_strategy(name: str) -> Strategy:
    if name not in STRATEGIES:
        raise ConfigError("There is no strategy {name} here.", name=format_value(name))
    return STRATEGIES[name]


def _assign_field(
    strategy: Strategy,
    field: str,
    value: object,
    params: dict[str, object],
    left_out: list[str],
    fields: Mapping[str, object],
) -> None:
    """Add one field of a file to `params` or `left_out`, or raise ConfigError."""
    check_runs_no_code(field)
    kinds = params_of(strategy.config)
    if field in kinds:
        if value is not None or kinds[field].optional:
            params[field] = value
    elif field in SPECIAL_IDS:
        left_out.append(Message("{field} belongs to the model and is not changed.", field=field))
    elif field in _FILE_METADATA_FIELDS or value is None or _is_default(field, value):
        return
    elif field == "watermarking_config" and "greenlist_ratio" in kinds:
        params |= _watermark_params(value)
    elif field in params_of(SamplingParams) and fields.get("do_sample") is not True:
        params_of(SamplingParams)[field].check(field, value)
        left_out.append(strategy.describe_missing_filter(field))
    elif sentence := _check_mode(strategy, field, value, fields):
        left_out.append(sentence)


def check_runs_no_code(field: str) -> None:
    """Raise ConfigError for a field with which transformers would run other people's code."""
    # transformers sets every key of a file as an attribute, __class__ too.
    if field in _CODE_FIELDS or field.startswith("__"):
        raise ConfigError(
            "The file sets {field}, which could run code; it is not read.", field=field[:40]
        )


def _check_mode(strategy: Strategy, field: str, value: object, fields: Mapping[str, object]) -> str:
    """Return why a field is left out, "" for one that repeats the strategy's own mode.

    Raises:
        ConfigError: the field is for another strategy, or nobody knows it.
    """
    select = strategy.generate_kwargs(strategy.config())
    # Types are compared too, since True == 1.
    if field in select and type(select[field]) is type(value) and select[field] == value:
        return ""
    other = infer_strategy(fields)
    if other != strategy.name and field in _strategy_fields():
        raise ConfigError(
            "{field} = {value} does not fit {strategy}; the file is one for {other}.",
            field=field,
            value=format_value(value),
            strategy=strategy.name,
            other=other,
        )
    if field == "max_length":
        return Message(
            "max_length = {value} counts the prompt, too; set max_new_tokens.",
            value=format_value(value),
        )
    if field in known_fields():
        return Message(
            "{field} = {value} is not offered here.", field=field, value=format_value(value)
        )
    near = difflib.get_close_matches(field, sorted(_strategy_fields()), n=1)
    if near:
        raise ConfigError(
            "The file has a field {field} that nobody here knows; did you mean {near}.",
            field=repr(field[:40]),
            near=near[0],
        )
    raise ConfigError(
        "The file has a field {field} that nobody here knows.", field=repr(field[:40])
    )


def _watermark_params(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ParameterError("watermarking_config", value, "it must be an object")
    unknown = next((name for name in value if name not in _GREENLIST_FIELDS), None)
    if unknown is not None:
        raise ConfigError(
            "watermarking_config has a field {unknown} that is not offered.",
            unknown=repr(unknown[:40]),
        )
    return {"scheme": "greenlist", **value}


def _strategy_fields() -> set[str]:
    modes = {"do_sample", "num_beams", "watermarking_config", "constraints"}
    return modes | {name for s in STRATEGIES.values() for name in params_of(s.config)}


def known_fields() -> Mapping[str, Any]:
    """Return every field of transformers' GenerationConfig with its default."""
    from transformers import GenerationConfig

    return GenerationConfig().__dict__


def _is_default(field: str, value: object) -> bool:
    """Return whether a field has transformers' default value."""
    from transformers import GenerationConfig

    standard = {**known_fields(), **GenerationConfig._get_default_generation_params()}
    # do_sample=False is a default, but it selects a mode.
    modes = ("do_sample",)
    # max_length has one too, but a file that has it limits the text.
    same = field in standard and type(standard[field]) is type(value) and standard[field] == value
    return same and field not in (*modes, "max_length")


def _is_above(value: object, limit: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > limit


def _has_text(name: str, value: object) -> bool:
    """Return whether a list of ids still contains texts, which only a tokenizer can convert."""
    if name == "stop_strings" or not isinstance(value, list):
        return False
    return any(isinstance(item, str) or _has_text(name, item) for item in value)


def non_default_params(strategy: str, params: Mapping[str, object]) -> dict[str, Any]:
    """Return the parameters that differ from the strategy's defaults."""
    defaults = defaults_of(_find_strategy(strategy).config)
    # Types are compared too, since True == 1.
    return {n: v for n, v in params.items() if defaults[n] != v or type(defaults[n]) is not type(v)}
