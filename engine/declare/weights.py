"""How a model's weights are stored: precision, quantisation and placement.

Names are those of transformers' ``from_pretrained`` and ``BitsAndBytesConfig``; the prefix
``assistant_`` marks those of the draft model. This module does not import torch.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.declare.params import Choice, Flag, Param, defaults_of, param, params_of
from engine.errors import ParameterError, suggest_name
from engine.messages import Message
from engine.type_guards import is_list, is_mapping

DTYPES = ("float32", "bfloat16", "float16")
QUANTIZATIONS = ("8bit", "4bit")
NF4, FP4 = QUANT_TYPES = ("nf4", "fp4")
TORCH, OPENVINO, EIGHT_BITS = BACKENDS = ("torch", "openvino", "openvino-int8")
ASSISTANT_PREFIX = "assistant_"
WEIGHTS_GROUP = "weights"
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?(KB|MB|GB|KiB|MiB|GiB)", re.ASCII)
_DEVICE = re.compile(r"cpu|mps|[0-9]|1[0-5]", re.ASCII)
_MAX_BYTES = 10**15


@dataclass(frozen=True, kw_only=True)
class MemoryLimits(Param):
    """Device -> most memory for a model's weights there; the normal form is pairs."""

    def describe_range(self) -> str:
        return (
            'an object such as {"cpu": "200MB", "0": "10GiB"}: cpu, mps or the number of an '
            "accelerator from 0 to 15, each with a size in KB, MB, GB, KiB, MiB or GiB"
        )

    def parse(self, value: object) -> tuple[tuple[str, str], ...]:
        pairs = list(value.items()) if is_mapping(value) else value
        if not is_list(pairs) or not 1 <= len(pairs) <= len(_UNITS) * 3:
            raise TypeError
        return tuple(sorted(self._parse_pair(pair) for pair in pairs))

    def _parse_pair(self, pair: object) -> tuple[str, str]:
        if not is_list(pair):
            raise TypeError
        device, size = pair
        # transformers numbers accelerators, while the keys of JSON are texts.
        name = str(device) if isinstance(device, int) and not isinstance(device, bool) else device
        if not isinstance(name, str) or not isinstance(size, str):
            raise TypeError
        if not _DEVICE.fullmatch(name) or not 0 < parse_size(size) <= _MAX_BYTES:
            raise ValueError
        return name, size


def parse_size(size: str) -> float:
    """Return the bytes of a size such as ``200MB``.

    Raises:
        ValueError: not a size.
    """
    found = _SIZE.fullmatch(size)
    if found is None:
        raise ValueError
    return float(found[1]) * _UNITS[found[2]]


@dataclass(frozen=True, kw_only=True)
class WeightsParams:
    """How one model's weights are stored; None means this machine's default."""

    backend: str = param(
        Choice(
            label="Computed by",
            help=(
                "OpenVINO computes the same, faster on a CPU. openvino-int8 stores 8 bits per "
                "value: faster still, but another model."
            ),
            group=WEIGHTS_GROUP,
            choices=BACKENDS,
        ),
        TORCH,
    )
    dtype: str | None = param(
        Choice(
            label="Precision",
            help=(
                "Number format of the weights and of the computation. Off means float32 on a CPU "
                "and bfloat16 elsewhere."
            ),
            group=WEIGHTS_GROUP,
            choices=DTYPES,
            optional=True,
        ),
        None,
    )
    quantization: str | None = param(
        Choice(
            label="Quantisation",
            help=(
                "Store the layers with 8 or 4 bits per value (bitsandbytes). This saves memory but "
                "changes the probabilities."
            ),
            group=WEIGHTS_GROUP,
            choices=QUANTIZATIONS,
            optional=True,
        ),
        None,
    )
    bnb_4bit_quant_type: str = param(
        Choice(
            label="4-bit values",
            help=(
                "The 16 values of 4-bit weights: nf4 places them as in a normal distribution, fp4 as "
                "floating-point numbers."
            ),
            group=WEIGHTS_GROUP,
            choices=QUANT_TYPES,
        ),
        NF4,
    )
    bnb_4bit_use_double_quant: bool = param(
        Flag(
            label="Double quantisation",
            help="Quantise the scales of the 4-bit blocks, too. This saves 0.4 bits per value.",
            group=WEIGHTS_GROUP,
        ),
        False,
    )
    bnb_4bit_compute_dtype: str | None = param(
        Choice(
            label="4-bit compute precision",
            help="Number format in which 4-bit weights are multiplied. Off means float32.",
            group=WEIGHTS_GROUP,
            choices=DTYPES,
            optional=True,
        ),
        None,
    )
    device_map: str | None = param(
        Choice(
            label="Placement",
            help="Auto spreads the layers over accelerators, main memory and disk, as space allows.",
            group=WEIGHTS_GROUP,
            choices=("auto",),
            optional=True,
        ),
        None,
    )
    max_memory: tuple[tuple[str, str], ...] | None = param(
        MemoryLimits(
            label="Memory limits",
            help=(
                'How much memory each device may use, such as {"cpu": "200MB", "0": "10GiB"}. '
                "Further layers stay on disk and are read at every step."
            ),
            group=WEIGHTS_GROUP,
            optional=True,
        ),
        None,
    )

    def check(self, prefix: str = "") -> None:
        """Check combinations of fields.

        Args:
            prefix: prefix of the field names in messages.

        Raises:
            ParameterError: one sentence naming the field and what it requires.
        """
        if self.backend != TORCH:
            self._check_torch_only(prefix)
        for name, (other, value) in REQUIRED_SETTINGS.items():
            if name in (said := self.changed_values()) and getattr(self, other) != value:
                allowed = Message("it needs {other} = {value}", other=prefix + other, value=value)
                raise ParameterError(prefix + name, said[name], allowed)

    def _check_torch_only(self, prefix: str) -> None:
        """Refuse settings that only the torch backend supports."""
        for name, value in self.changed_values().items():
            # OpenVINO computes in float32, so asking for it contradicts nothing.
            if name != "backend" and (name, value) != ("dtype", "float32"):
                allowed = Message(
                    "it needs {prefix}backend = {backend}", prefix=prefix, backend=TORCH
                )
                raise ParameterError(prefix + name, value, allowed)

    def changed_values(self, prefix: str = "") -> dict[str, Any]:
        """Return the values that differ from the defaults, as JSON values of a request."""
        values = {name: getattr(self, name) for name in _KINDS}
        changed = {name: value for name, value in values.items() if value != _DEFAULTS[name]}
        if self.max_memory is not None:
            changed["max_memory"] = dict(self.max_memory)
        return {prefix + name: value for name, value in changed.items()}


REQUIRED_SETTINGS = {
    "bnb_4bit_quant_type": ("quantization", "4bit"),
    "bnb_4bit_use_double_quant": ("quantization", "4bit"),
    "bnb_4bit_compute_dtype": ("quantization", "4bit"),
    "max_memory": ("device_map", "auto"),
}
"""Parameter -> the parameter it requires, and the required value of that."""
_KINDS = params_of(WeightsParams)
_DEFAULTS = defaults_of(WeightsParams)


def weights_params(assistant: bool) -> dict[str, Param]:
    """Return every parameter by name, with those of the draft model if there is one."""
    return _KINDS | (_ASSISTANT_KINDS if assistant else {})


def weights_defaults(assistant: bool) -> dict[str, Any]:
    """Return the default of every parameter of ``weights_params``."""
    return {
        name: _DEFAULTS[name.removeprefix(ASSISTANT_PREFIX)] for name in weights_params(assistant)
    }


_ASSISTANT_KINDS = {
    ASSISTANT_PREFIX + name: dataclasses.replace(
        kind, label=f"Draft: {kind.label[0].lower()}{kind.label[1:]}"
    )
    for name, kind in _KINDS.items()
}


def parse_weights(
    values: object, owner: str, assistant: bool
) -> tuple[WeightsParams, WeightsParams]:
    """Return the weight settings of a run's model and of its draft model.

    Args:
        values: names and raw values; the draft model's begin with ``assistant_``.
        owner: the strategy's name, for messages.
        assistant: whether the strategy has a draft model.

    Raises:
        ParameterError: unknown name, value outside its range, or a missing required setting.
    """
    if not is_mapping(values):
        raise ParameterError("weights", values, "it must be an object of names and values")
    kinds = weights_params(assistant)
    parts: dict[str, dict[str, Any]] = {"": {}, ASSISTANT_PREFIX: {}}
    for name, value in values.items():
        if not isinstance(name, str) or name not in kinds:
            raise _unknown_parameter(name, value, kinds, owner)
        prefix = ASSISTANT_PREFIX if name.startswith(ASSISTANT_PREFIX) else ""
        parts[prefix][name.removeprefix(ASSISTANT_PREFIX)] = kinds[name].check(name, value)
    own, draft = (WeightsParams(**part) for part in parts.values())
    own.check()
    draft.check(ASSISTANT_PREFIX)
    return own, draft


def _unknown_parameter(
    name: object, value: object, kinds: Mapping[str, Param], owner: str
) -> ParameterError:
    if isinstance(name, str) and name in _ASSISTANT_KINDS:
        return ParameterError(name, value, Message("{owner} has no draft model", owner=owner))
    hint = suggest_name(name, kinds) or Message("there are {names}", names=", ".join(_KINDS))
    return ParameterError("weights", name, "no weights setting has this name", hint)
