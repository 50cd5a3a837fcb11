"""The short script: the run as about five lines of plain generate(), to read or to copy."""

from __future__ import annotations

from engine.export.filter_code import filter_arguments, filter_imports, filter_sources
from engine.export.media_code import media_imports, short_input_lines
from engine.export.plan import ConfigObject, Plan, ScriptModel
from engine.export.weights_code import (
    from_pretrained_arguments,
    is_moved_to_device,
    quantization_imports,
)
from engine.run.generation import reads_texts
from engine.run.media_request import SPEECH_FIELDS
from engine.trace.records import Trace

CONTROL_TOKEN_NOTE = (
    "A message spells a control token, which stayed text: apply_chat_template gives other ids."
)
"""Comment in the code of a conversation that uses ids instead of messages."""
PAD_NOTE = "A draft would not read the pad id inside a text, so none is set but the end id."
"""Comment in the code of a run that transformers drafts for."""
_STREAMER = "TextStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)"
_LITERAL_NOTE = "The prompt spells a special token, which stayed text: split_special_tokens=True."
"""Comment in the code of a prompt that ``tokenizer(prompt)`` alone would read otherwise."""


def short_code(plan: Plan, *, streams: bool = False) -> str | None:
    """Return the run in a few lines of Python; None if that is impossible.

    The lines omit revision, attention and the repository's own defaults. ``script`` has the exact
    code.

    Args:
        plan: plan of the code.
        streams: print the text while it is written; see ``stream_script``.
    """
    config = plan.config
    # A function or a grammar cannot be a plain line, nor can a tokenizer that an exported loop needs.
    if config.prefix_allowed_tokens_fn is not None or reads_texts(plan.config):
        return None
    if plan.has_folder and config.stop_strings:
        return None
    if plan.media is not None and (plan.has_folder or plan.trace.parent is not None):
        return None
    # A tokenizer makes no token of an empty prompt; the run began with the model's begin token.
    text = bool(plan.trace.prompt) or is_from_chat_template(plan.trace)
    auto = plan.auto
    tokens = _has_tokenizer(plan)
    packages, needed = media_imports(plan)
    names = [auto, *needed, *_further_names(plan), *(["TextStreamer"] if streams else [])]
    ids = plan.media is None and not text
    sources = filter_sources(plan)
    lines = ["import torch"] if ids or config.negative_prompt_ids or sources else []
    lines += [line for line in packages if line and "Path" not in line and "soxr" not in line]
    lines += [f"from transformers import {', '.join(names)}", ""]
    lines += [sources, ""] if sources else []
    if tokens:
        lines.append(
            f"tokenizer = AutoTokenizer.from_pretrained({', '.join(plan.model.arguments)})"
        )
    lines.append(f"model = {_model_call(plan.model, auto)}")
    lines += draft_lines(plan, auto)
    if not plan.own:
        lines.append(f"set_seed({plan.trace.seed})")
    lines += literal_note_lines(plan.trace)
    asked = f"**{_tokenizer_call(plan.trace)}" if text else _ids_tensor(plan)
    if plan.media is not None:
        lines += short_input_lines(plan)
        asked = "**given"
    arguments = [
        asked + _move_code(plan.model.info.device),
        *generate_argument_code(plan),
        *_speech_arguments(plan.trace),
    ]
    if streams:
        arguments.append(f"streamer={_STREAMER}")
        return "\n".join([*lines, f"model.generate({', '.join(arguments)})"])
    lines.append(f"out = model.generate({', '.join(arguments)})")
    return "\n".join([*lines, *_print_lines(plan, tokens)])


def _further_names(plan: Plan) -> list[str]:
    """Return what the lines import from transformers, besides the model's class and its processors."""
    built = sorted({v.name for v in plan.values.values() if isinstance(v, ConfigObject)})
    return [
        *(["AutoTokenizer"] if _has_tokenizer(plan) else []),
        *built,
        *filter_imports(plan),
        *quantization_imports(plan),
        *(["GenerationConfig"] if plan.has_folder else []),
        *([] if plan.own else ["set_seed"]),
    ]


def _move_code(device: str) -> str:
    return "" if device == "cpu" else f".to({device!r})"


def _has_tokenizer(plan: Plan) -> bool:
    """Return whether the lines need the tokenizer, at least to print the text."""
    trace = plan.trace
    read = trace.prompt is not None or is_from_chat_template(trace) or plan.media is not None
    return read or plan.needs_tokenizers or bool(plan.config.stop_strings)


def prompt_options(trace: Trace) -> dict[str, bool]:
    """Return the arguments with which the tokenizer reads the run's prompt, besides the usual ones."""
    return {"split_special_tokens": True} if trace.literal_tokens else {}


def literal_note_lines(trace: Trace) -> list[str]:
    """Return the comment on special tokens that stayed text, if there are any."""
    if not trace.literal_tokens or (trace.prompt is None and trace.messages is None):
        return []
    return [f"# {_LITERAL_NOTE if trace.messages is None else CONTROL_TOKEN_NOTE}"]


def is_from_chat_template(trace: Trace) -> bool:
    """Return whether apply_chat_template turns the run's messages into its ids."""
    return trace.messages is not None and not trace.literal_tokens


def _tokenizer_call(trace: Trace) -> str:
    if trace.prompt is not None:
        options = "".join(f", {name}={value}" for name, value in prompt_options(trace).items())
        return f'tokenizer({trace.prompt!r}{options}, return_tensors="pt")'
    told = "".join(f", {name}={value!r}" for name, value in (trace.template or {}).items())
    messages = [dict(message) for message in trace.messages or ()]
    return (
        f'tokenizer.apply_chat_template({messages!r}{told}, return_tensors="pt", return_dict=True)'
    )


def _speech_arguments(trace: Trace) -> list[str]:
    """Return the speech model's settings, such as its language, as arguments."""
    speech = trace.speech or {}
    return [f"{name}={speech[name]!r}" for name in SPEECH_FIELDS if name in speech]


def _ids_tensor(plan: Plan) -> str:
    return f"torch.tensor([{list(plan.trace.prompt_ids)!r}])"


def _model_call(source: ScriptModel, auto: str) -> str:
    info = source.info
    moved = "" if info.device == "cpu" or not is_moved_to_device(info) else f".to({info.device!r})"
    return f"{auto}.from_pretrained({', '.join([*source.arguments, *from_pretrained_arguments(info)])}){moved}"


def draft_lines(plan: Plan, auto: str, model: str = "model") -> list[str]:
    """Return the lines that load the draft model and set its drafting options."""
    lines = []
    if plan.assistant:
        lines.append(f"assistant = {_model_call(plan.assistant, auto)}")
    if plan.needs_tokenizers and plan.assistant:
        place = ", ".join(plan.assistant.arguments)
        lines.append(f"assistant_tokenizer = AutoTokenizer.from_pretrained({place})")
    if plan.has_native_draft:
        owner = "assistant" if plan.assistant else model
        lines += [f"{owner}.generation_config.{n} = {v!r}" for n, v in plan.draft_values.items()]
        lines += fixed_threshold_lines(plan)
    return lines


def fixed_threshold_lines(plan: Plan) -> list[str]:
    """Return the lines that keep transformers from tuning the draft's threshold during the run."""
    if not (plan.has_native_draft and plan.draft_values["assistant_confidence_threshold"]):
        return []
    return [
        "# With scikit-learn installed, transformers would tune the confidence threshold during the run.",
        "from transformers.generation import candidate_generator",
        "",
        "candidate_generator.is_sklearn_available = lambda: False",
    ]


def generate_argument_code(plan: Plan) -> list[str]:
    """Return the keyword arguments of generate() as code."""
    config = plan.config
    arguments = [f"{name}={value_to_code(value)}" for name, value in plan.values.items()]
    if config.eos_token_id is not None:
        arguments.append(f"eos_token_id={list(plan.trace.eos_token_ids)!r}")
    if plan.has_native_draft and config.do_sample and plan.trace.eos_token_ids:
        arguments.append(f"pad_token_id={plan.trace.eos_token_ids[0]!r}")
    if not plan.use_cache:
        arguments.append("use_cache=False")
    if plan.has_folder:  # an exported loop needs the complete configuration
        end = f"eos_token_id={list(plan.trace.eos_token_ids) or None!r}"
        listed = arguments if config.eos_token_id is not None else [*arguments, end]
        arguments = [f"generation_config=GenerationConfig({', '.join(listed)})"]
    if plan.assistant:
        arguments.append("assistant_model=assistant")
    if plan.needs_tokenizers:
        arguments += ["tokenizer=tokenizer", "assistant_tokenizer=assistant_tokenizer"]
    if config.stop_strings:
        arguments.append(f"stop_strings={list(config.stop_strings)!r}")
        arguments += [] if plan.needs_tokenizers else ["tokenizer=tokenizer"]
    if config.negative_prompt_ids:
        rows = max(plan.values.get("num_beams", 1) or 1, config.num_return_sequences)
        ids = [list(config.negative_prompt_ids)] * rows
        arguments.append(f"negative_prompt_ids=torch.tensor({ids!r})")
    arguments += filter_arguments(plan)
    if plan.has_folder:
        arguments += [f"custom_generate={plan.folder_name!r}", "trust_remote_code=True"]
        arguments += [] if plan.method else [f"seed={plan.trace.seed}"]
        arguments += [f"{name}={value!r}" for name, value in plan.loop_values.items()]
    return arguments


def value_to_code(value: object) -> str:
    """Return a value of the configuration as Python code."""
    if isinstance(value, ConfigObject):
        return f"{value.name}({', '.join(f'{n}={v!r}' for n, v in value.fields.items())})"
    return repr(value)


def _print_lines(plan: Plan, tokens: bool) -> list[str]:
    out = 'getattr(out, "sequences", out)' if plan.has_folder else "out"
    if not tokens:
        return [f"print({out}.tolist())"]
    return [f"print(*tokenizer.batch_decode({out}, skip_special_tokens=True), sep='\\n')"]
