"""Weight settings of a model: dtype, quantisation and placement, as loading arguments and as records."""

from __future__ import annotations

import dataclasses
import logging
import re
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch

from engine.declare.params import Choice, Flag, Param
from engine.declare.weights import (
    ASSISTANT_PREFIX,
    DTYPES,
    NF4,
    QUANTIZATIONS,
    REQUIRED_SETTINGS,
    TORCH,
    WeightsParams,
)
from engine.errors import ModelError, ParameterError
from engine.messages import Message
from engine.model_code import PROPERTIES, ModelCall
from engine.models.model_types import Model
from engine.models.openvino.installation import INSTALL_COMMAND, PACKAGE, is_installed
from engine.settings import SETTINGS
from engine.temporary_folder import TemporaryFolder
from engine.trace.records import HeldWeights, ModelInfo, Trace

DEFAULT = WeightsParams()
_SILENCED_LOGGERS = (
    "bitsandbytes",
    "accelerate",
    "transformers.modeling_utils",
    "transformers.integrations",
    "transformers.distributed",
    "transformers.generation",
)
_CPU_BLOCK = (32, 64)
"""Rows and columns of the blocks in which bitsandbytes packs 4-bit matrices on CPUs with AVX512-BF16."""


def torch_dtype(name: str) -> torch.dtype:
    """Return the torch dtype for a name in DTYPES."""
    return getattr(torch, name)


def to_weights_params(dtype: str | None, quantization: str | None) -> WeightsParams:
    """Return the settings with a dtype and a quantisation, None for the defaults.

    Raises:
        ModelError: one of them is unknown.
    """
    if dtype is not None and dtype not in DTYPES:
        raise ModelError(
            "dtype = {dtype} is not one of {names}.", dtype=repr(dtype), names=", ".join(DTYPES)
        )
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ModelError("quantization = {kind} is not one of 4bit, 8bit.", kind=repr(quantization))
    return WeightsParams(dtype=dtype, quantization=quantization)


def with_default_dtype(weights: WeightsParams, device: str) -> WeightsParams:
    """Return the settings with the dtype filled in: the device's default, or float32 for OpenVINO.

    Args:
        weights: the requested settings.
        device: torch name of the device.
    """
    on_graphs = weights.backend != TORCH
    dtype = "float32" if on_graphs else weights.dtype or default_dtype(device)
    return dataclasses.replace(weights, dtype=dtype)


def default_dtype(device: str) -> str:
    """Return a device's default dtype: float32 on CPU, else bfloat16."""
    return "float32" if device == "cpu" else "bfloat16"


def check_weights_allowed(weights: WeightsParams, device: str, prefix: str = "") -> None:
    """Check that this machine supports the settings, and that a public deployment offers them.

    A public deployment restricts them because each combination is one more copy of the model in memory.

    Args:
        weights: the requested settings.
        device: the device of this machine.
        prefix: prefix of the parameter names in errors.

    Raises:
        ParameterError: naming the first setting that is not offered, and those that are.
    """
    if weights.backend != TORCH and not is_installed():
        allowed = Message("the package {package} is not installed", package=PACKAGE)
        raise ParameterError(
            prefix + "backend",
            weights.backend,
            allowed,
            Message("{how} brings it", how=INSTALL_COMMAND),
        )
    for name, value in weights.changed_values().items():
        if not _is_offered(name, value, device):
            listed = ", ".join(SETTINGS.public_weights.split()) or "the default alone"
            allowed = Message("this deployment offers {listed}", listed=listed)
            raise ParameterError(prefix + name, value, allowed, "leave it at its default")


def _is_offered(name: str, value: object, device: str) -> bool:
    if name == "backend" and value != TORCH and not is_installed():
        return False
    if (
        not SETTINGS.public
        or value in (TORCH, NF4)
        or (name, value) == ("dtype", default_dtype(device))
    ):
        return True
    return _SETTING_WORDS.get(name, value) in SETTINGS.public_weights.split()


def filter_offered_params(
    kinds: Mapping[str, Param], device_of: Callable[[], str]
) -> dict[str, Param]:
    """Return the parameters that have a choice here, each with the values that ``check_weights_allowed`` accepts.

    So a form shows no control whose values would be refused.

    Args:
        kinds: parameters by name, including those of a draft model.
        device_of: returns the device of this machine; called only on a public deployment.
    """
    if not SETTINGS.public:
        there = is_installed()
        return {n: kind for n, kind in kinds.items() if there or not n.endswith("backend")}
    device = device_of()
    own = {
        n: _narrow_choices(n.removeprefix(ASSISTANT_PREFIX), kind, device)
        for n, kind in kinds.items()
    }
    return {name: kind for name, kind in own.items() if kind is not None and _is_enabled(name, own)}


def _narrow_choices(name: str, kind: Param, device: str) -> Param | None:
    """Return a parameter with its offered values; None if only the default is offered."""
    if not isinstance(kind, Choice):
        value = isinstance(kind, Flag) or None
        return kind if _is_offered(name, value, device) else None
    choices = tuple(c for c in kind.choices if _is_offered(name, c, device))
    plain = {
        "dtype": (default_dtype(device),),
        "backend": (TORCH,),
        "bnb_4bit_quant_type": (NF4,),
    }.get(name, ())
    return None if choices in ((), plain) else dataclasses.replace(kind, choices=choices)


def _is_enabled(name: str, own: Mapping[str, Param | None]) -> bool:
    """Return True if the value that a parameter depends on is offered."""
    prefix = ASSISTANT_PREFIX if name.startswith(ASSISTANT_PREFIX) else ""
    other, value = REQUIRED_SETTINGS.get(name.removeprefix(prefix), (None, None))
    if other is None:
        return True
    kind = own[prefix + other]
    return isinstance(kind, Choice) and value in kind.choices


_SETTING_WORDS = {"bnb_4bit_use_double_quant": "double_quant", "max_memory": "auto"}
"""Parameter -> its word in the setting ``public_weights``; other parameters are named by their value."""


def check_devices(weights: WeightsParams) -> None:
    """Check that all devices in ``max_memory`` exist on this machine.

    Raises:
        ModelError: naming the missing device.
    """
    there = {str(n) for n in range(torch.cuda.device_count())} | {"cpu"}
    if torch.backends.mps.is_available():
        there.add("mps")
    for device, size in weights.max_memory or ():
        if device not in there:
            raise ModelError(
                "max_memory = {limits} names a device that is not here; there is {names}.",
                limits=repr({device: size}),
                names=", ".join(sorted(there)),
            )


def loading_options(weights: WeightsParams) -> tuple[dict[str, Any], TemporaryFolder | None]:
    """Return the arguments for ``from_pretrained``, and a new temporary folder for offloading or None.

    Args:
        weights: settings of the weights, with their dtype.
    """
    assert weights.dtype is not None
    options: dict[str, Any] = {"dtype": torch_dtype(weights.dtype)}
    # load_checks refuses weights of other shapes, and names them.
    options["ignore_mismatched_sizes"] = True
    # What a pass returns is not for a config.json to say: sdpa refuses output_attentions.
    options |= {"output_attentions": False, "output_hidden_states": False, "return_dict": True}
    if weights.quantization is not None:
        options["quantization_config"] = _quantization_config(weights)
    folder = None
    if weights.device_map is not None:
        folder = TemporaryFolder("offloaded")
        options |= {"device_map": weights.device_map, "offload_folder": str(folder.path)}
        if weights.max_memory is not None:
            # accelerate names GPUs by their number and other devices by name.
            options["max_memory"] = {_parse_device(d): size for d, size in weights.max_memory}
    return options, folder


def _quantization_config(weights: WeightsParams) -> Any:
    from transformers import BitsAndBytesConfig

    if weights.quantization == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=weights.bnb_4bit_quant_type,
        bnb_4bit_use_double_quant=weights.bnb_4bit_use_double_quant,
        bnb_4bit_compute_dtype=torch_dtype(weights.bnb_4bit_compute_dtype or "float32"),
    )


def _parse_device(name: str) -> str | int:
    return int(name) if name.isdigit() else name


def remove_when_freed(model: Model, folder: TemporaryFolder | None) -> None:
    """Remove a folder when the model is freed or the process ends."""
    if folder is not None:
        weakref.finalize(model, folder.remove)


def offload_error_reason(error: Exception, weights: WeightsParams) -> str | None:
    """Return one clause for transformers' error about offloading quantised layers; None for other errors."""
    if weights.quantization is None or weights.device_map is None:
        return None
    if not re.search(r"dispatched on the CPU|offload", str(error)):
        return None
    limits = dict(weights.max_memory or ())
    return Message(
        "quantised layers cannot wait on disk, so max_memory = {limits} is too little",
        limits=limits,
    )


def check_4bit_blocks(name: str, model: Model) -> None:
    """Check that all 4-bit matrices fit bitsandbytes' CPU blocks; else the first pass would fail.

    Args:
        name: the model's name.
        model: the loaded model.

    Raises:
        ModelError: naming the size of the first matrix that does not fit.
    """
    for module in model.modules():
        if not getattr(module, "support_avx512bf16_for_cpu", False):
            continue
        size = (module.out_features, module.in_features)
        if module.weight.device.type == "cpu" and any(
            one % block for one, block in zip(size, _CPU_BLOCK, strict=True)
        ):
            raise ModelError(
                "{name} cannot use quantization = 4bit on this CPU: one of its matrices is {rows} "
                "by {columns}, and they must be multiples of {one} and {other}.",
                name=name,
                rows=size[0],
                columns=size[1],
                one=_CPU_BLOCK[0],
                other=_CPU_BLOCK[1],
            )


@ModelCall(PROPERTIES)
def input_device(model: Model) -> torch.device:
    """Return the device of a model's inputs, also if its first layers are offloaded to disk."""
    places = getattr(model, "hf_device_map", None)
    if not places or model.device.type != "meta":
        return model.device
    first = next((place for place in places.values() if place not in ("cpu", "disk")), "cpu")
    return torch.device(first)


def layers_on(model: Model) -> dict[str, int]:
    """Return {device: number of layers}, with devices such as cpu, cuda:0 and disk."""
    kinds = set(getattr(model, "_no_split_modules", None) or ())
    places = getattr(model, "hf_device_map", None) or {}
    names = [name for name, module in model.named_modules() if type(module).__name__ in kinds]
    return dict(Counter(_find_device(name, places, model.device) for name in names))


def _find_device(name: str, places: Mapping[str, object], whole: torch.device) -> str:
    parts = name.split(".")
    for end in range(len(parts), -1, -1):
        place = places.get(".".join(parts[:end]))
        if place is not None:
            return f"cuda:{place}" if isinstance(place, int) else str(place)
    return str(whole)


def to_held_weights(weights: WeightsParams, model: Model) -> HeldWeights | None:
    """Return the trace record of the weight settings; None if the dtype says everything."""
    if weights.backend != TORCH:
        return HeldWeights(
            layers_on=layers_on(model), backend=weights.backend, agreement=model.agreement
        )
    if weights.quantization is None and weights.device_map is None:
        return None
    limits = weights.max_memory
    return HeldWeights(
        quantization=weights.quantization,
        bnb_4bit_quant_type=weights.bnb_4bit_quant_type,
        bnb_4bit_use_double_quant=weights.bnb_4bit_use_double_quant,
        bnb_4bit_compute_dtype=weights.bnb_4bit_compute_dtype,
        device_map=weights.device_map,
        max_memory=None if limits is None else dict(limits),
        layers_on=layers_on(model),
    )


def weights_from_info(info: ModelInfo) -> WeightsParams:
    """Return the weight settings of a recorded run.

    Raises:
        ParameterError: the record has a value that is not legal.
    """
    from engine.declare.weights import parse_weights

    values = {} if info.weights is None else dataclasses.asdict(info.weights)
    for measured in ("layers_on", "agreement"):
        values.pop(measured, None)
    if info.dtype in DTYPES:
        values["dtype"] = info.dtype
    return parse_weights(values, "", False)[0]


def to_weights_request(trace: Trace, device: str, *, assistant: bool = True) -> dict[str, Any]:
    """Return the request parameters that give the weight settings of a recorded run.

    Args:
        trace: the run.
        device: the device of this machine. Its default dtype is left out, so that a recorded run
            opens as the preset it came from.
        assistant: whether to include the draft model's settings.
    """
    infos = {"": trace.model} | ({ASSISTANT_PREFIX: trace.assistant} if assistant else {})
    settings: dict[str, Any] = {}
    for prefix, info in infos.items():
        if info is not None:
            weights = weights_from_info(info)
            if weights.dtype == default_dtype(device):
                weights = dataclasses.replace(weights, dtype=None)
            settings |= weights.changed_values(prefix)
    return settings


def silence_libraries() -> None:
    """Turn off libraries' progress bars and warnings, which would mix with text in a terminal."""
    from transformers import logging as own

    own.disable_progress_bar()
    for name in _SILENCED_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
