"""Exported code that loads models in the run's weight format: arguments of ``from_pretrained``."""

from __future__ import annotations

from engine.declare.weights import EIGHT_BITS, TORCH
from engine.export.plan import Plan
from engine.trace.records import HeldWeights, ModelInfo

QUANTIZATION_CLASS = "BitsAndBytesConfig"


def from_pretrained_arguments(info: ModelInfo) -> list[str]:
    """Return the arguments of ``from_pretrained`` for the run's weight format, as code."""
    held = info.weights
    arguments = [f'dtype="{info.dtype}"']
    if held is None:
        return arguments
    if held.quantization is not None:
        arguments.append(f"quantization_config={_quantization_config(held)}")
    if held.device_map is not None:
        arguments.append(f'device_map="{held.device_map}"')
    if held.max_memory is not None:
        # accelerate knows an accelerator by its number, not by the digit as text.
        limits = {int(d) if d.isdigit() else d: size for d, size in held.max_memory.items()}
        arguments.append(f"max_memory={limits!r}")
    return arguments


def _quantization_config(held: HeldWeights) -> str:
    if held.quantization == "8bit":
        return f"{QUANTIZATION_CLASS}(load_in_8bit=True)"
    fields = ["load_in_4bit=True", f'bnb_4bit_quant_type="{held.bnb_4bit_quant_type}"']
    if held.bnb_4bit_use_double_quant:
        fields.append("bnb_4bit_use_double_quant=True")
    if held.bnb_4bit_compute_dtype is not None:
        fields.append(f'bnb_4bit_compute_dtype="{held.bnb_4bit_compute_dtype}"')
    return f"{QUANTIZATION_CLASS}({', '.join(fields)})"


def is_moved_to_device(info: ModelInfo) -> bool:
    """Return whether the code moves the model to its device after loading."""
    # bitsandbytes and a device map place the weights while loading.
    return info.weights is None or info.weights.backend != TORCH


def backend_lines(plan: Plan) -> list[str]:
    """Return a note if OpenVINO computed the run's passes, which the code computes with torch."""
    infos = [source.info for source in (plan.model, plan.assistant) if source is not None]
    found = {info.weights.backend for info in infos if info.weights is not None} - {TORCH}
    if EIGHT_BITS in found:
        return [
            f"The run was computed by {EIGHT_BITS}, whose weights have 8 bits a value; this code holds",
            "them in float32 with torch, which is another model and may give other tokens.",
        ]
    if found:
        return [
            "The run was computed by openvino; this code holds the same weights with torch, whose",
            "logits are the same up to rounding, so a near tie may go the other way.",
        ]
    return []


def quantization_imports(plan: Plan) -> list[str]:
    """Return the names that the code imports from transformers for quantized weights."""
    infos = [source.info for source in (plan.model, plan.assistant) if source is not None]
    held = [info.weights for info in infos if info.weights is not None]
    return [QUANTIZATION_CLASS] if any(weights.quantization for weights in held) else []


def load_lines(plan: Plan, auto: str) -> list[str]:
    """Return the lines that define ``load`` and load the run's model with it.

    Args:
        plan: plan of the code.
        auto: name of transformers' class.
    """
    own = plan.model.info
    draft = None if plan.assistant is None else plan.assistant.info
    alike = draft is None or from_pretrained_arguments(own) == from_pretrained_arguments(draft)
    given = "" if alike else ", **held"
    arguments = from_pretrained_arguments(own) if alike else ["**held"]
    moved = _device_move(own, alike)
    return [
        f"def load(place, revision{given}):",
        f"    model = {auto}.from_pretrained(",
        "        place,",
        "        revision=revision,",
        *(f"        {argument}," for argument in arguments),
        f'        attn_implementation="{plan.attention}",',
        "        use_safetensors=True,",
        f"    ){moved}.eval()",
        *_conditional_move_lines(alike),
        "    # A repository's sampling defaults are not inherited, only its special token ids.",
        '    names = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")',
        "    old = model.generation_config",
        "    model.generation_config = GenerationConfig(**{n: getattr(old, n, None) for n in names})",
        "    return model",
        "",
        "",
        _load_call("model", "MODEL, REVISION", own, alike),
    ]


def assistant_line(plan: Plan) -> str:
    """Return the line that loads the draft model."""
    assert plan.assistant is not None
    info = plan.assistant.info
    alike = from_pretrained_arguments(plan.model.info) == from_pretrained_arguments(info)
    return _load_call("assistant", "ASSISTANT, ASSISTANT_REVISION", info, alike)


def _load_call(name: str, place: str, info: ModelInfo, alike: bool) -> str:
    arguments = [place] if alike else [place, *from_pretrained_arguments(info)]
    return f"{name} = load({', '.join(arguments)})"


def _device_move(own: ModelInfo, alike: bool) -> str:
    return ".to(DEVICE)" if alike and is_moved_to_device(own) else ""


def _conditional_move_lines(alike: bool) -> list[str]:
    if alike:
        return []
    return ['    if list(held) == ["dtype"]:', "        model = model.to(DEVICE)"]
