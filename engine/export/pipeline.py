"""The run as a call of transformers' pipeline("text-generation"), which gives the same tokens."""

from __future__ import annotations

from dataclasses import replace
from textwrap import indent
from typing import Any

from engine.errors import ExportError
from engine.export.filter_code import filter_imports, filter_sources
from engine.export.plan import ConfigObject, Plan
from engine.export.script import (
    EXACT_RUN_HEADING,
    IDS_PREFIX,
    call_arguments,
    code_sections,
    code_summary,
)
from engine.export.short_script import (
    draft_lines,
    generate_argument_code,
    is_from_chat_template,
    prompt_options,
)
from engine.run.generation import reads_texts

TITLE = "The run as a pipeline"
_SHORT_DOCSTRING = '"""The run as a pipeline; nothing below needs it."""'


def unsupported_reason(plan: Plan) -> str | None:
    """Return the reason why a run cannot be a pipeline; None if it can."""
    if plan.method is not None:
        return "A pipeline reads a method's result differently, so the script calls generate()."
    if plan.media is not None:
        return "This pipeline reads text alone; the script gives the model its picture or sound."
    if plan.model.info.is_encoder_decoder:
        return (
            "There is no pipeline for this model: transformers 5 has removed text2text-generation, and"
            " text-generation takes decoder-only models alone."
        )
    if plan.trace.messages is not None and plan.trace.literal_tokens:
        return "A message spells a control token, and a pipeline would read it as one."
    if not plan.trace.prompt and not is_from_chat_template(plan.trace):
        return "A pipeline begins with a text, and this run began with token ids."
    return None


def pipeline_script(plan: Plan) -> str:
    """Return a script that calls a pipeline and prints the same lines as ``script.script``.

    Raises:
        ExportError: the run cannot be a pipeline.
    """
    reason = unsupported_reason(plan)
    if reason is not None:
        raise ExportError(reason)
    parts = [*code_sections(plan)[:-1], (TITLE, pipeline_call(plan))]
    body = "\n\n".join(f"# {title}\n{code}" for title, code in parts)
    about = f'"""{code_summary(plan)}\n\nHere pipeline("text-generation") calls it.\n"""'
    return f"{about}\n\n{_short_function(plan)}{body}\n"


def pipeline_call(plan: Plan) -> str:
    """Return the code of the call and its output; it uses `model`, `tokenizer` and `config`."""
    before, arguments = call_arguments(plan)
    ids_only = ["ids_only=True"] if plan.own else []
    lines = [
        "from transformers import pipeline",
        "",
        *before,
        "pipe = pipeline(",
        '    "text-generation",',
        "    model=model,",
        "    tokenizer=tokenizer,",
        "    device=DEVICE,",
        '    prefix="",  # a model\'s own prefix is no part of the prompt',
        ")",
        "# What is not said here a pipeline would choose by itself.",
        *(f"config.{name} = {value!r}" for name, value in _explicit_sampling(plan).items()),
        *_encoding_lines(plan),
        *([] if plan.own else ["torch.manual_seed(SEED)"]),
        "out = pipe(",
        "    text,",
        "    return_tensors=True,",
        "    tokenizer_encode_kwargs=encode,",
        "    generation_config=config,",
        *(f"    {argument}," for argument in [*arguments, *ids_only]),
        ")",
        "for answer in out:",
        '    new = answer["generated_token_ids"][len(PROMPT_IDS) :]',
        "    # What follows the end of a text is padding.",
        "    ends = (i + 1 for i, token in enumerate(new) if token in (END or []))",
        "    new = new[: next(ends, len(new))]",
        f'    print("{IDS_PREFIX.strip()}", new)',
        "    print(tokenizer.decode(new, skip_special_tokens=True))",
    ]
    return "\n".join(lines)


def _encoding_lines(plan: Plan) -> list[str]:
    """Return the lines that define the text and how the pipeline tokenizes it."""
    if plan.trace.messages is None:
        return [
            "text = PROMPT",
            f"encode = {prompt_options(plan.trace)!r}",
            'assert tokenizer(text, **encode)["input_ids"] == PROMPT_IDS, "another tokenizer"',
        ]
    return [
        "text = tokenizer.apply_chat_template(MESSAGES, **TEMPLATE, tokenize=False)",
        "# The template has written every token that stands before a text.",
        'encode = {"add_special_tokens": False}',
        'assert tokenizer(text, **encode)["input_ids"] == PROMPT_IDS, "the template says something else now"',
    ]


def _explicit_sampling(plan: Plan) -> dict[str, Any]:
    """Return the sampling settings that a pipeline needs explicitly."""
    # Without them a pipeline samples at a temperature of 0.7.
    drawn = bool(plan.values.get("do_sample", False))
    said: dict[str, Any] = {"do_sample": drawn}
    return said | ({"temperature": plan.values.get("temperature", 1.0)} if drawn else {})


def _short_function(plan: Plan) -> str:
    lines = short_pipeline_code(plan)
    if lines is None:
        return ""
    return f"\ndef in_short():\n    {_SHORT_DOCSTRING}\n{indent(lines, '    ')}\n\n\n{EXACT_RUN_HEADING}\n\n"


def short_pipeline_code(plan: Plan) -> str | None:
    """Return the pipeline call in a few lines; None if impossible, see ``short_code``."""
    config = plan.config
    if plan.trace.messages is not None:
        return None
    if config.prefix_allowed_tokens_fn is not None or reads_texts(plan.config):
        return None
    if plan.own and config.stop_strings:
        return None
    told = replace(plan, values={**plan.values, **_explicit_sampling(plan)})
    built = sorted({v.name for v in told.values.values() if isinstance(v, ConfigObject)})
    names = [*built, *filter_imports(plan), "pipeline", *([] if plan.own else ["set_seed"])]
    names += ["GenerationConfig"] if plan.own else []
    names += ["AutoModelForCausalLM"] if plan.assistant else []
    names += ["AutoTokenizer"] if plan.needs_tokenizers else []
    info = plan.model.info
    place = f"{', '.join(plan.model.arguments)}, dtype={info.dtype!r}, device={info.device!r}"
    sources = filter_sources(plan)
    lines = ["import torch"] if config.negative_prompt_ids or sources else []
    lines += [f"from transformers import {', '.join(sorted(names))}", ""]
    lines += [sources, ""] if sources else []
    lines.append(f'pipe = pipeline("text-generation", model={place})')
    lines += draft_lines(plan, "AutoModelForCausalLM", model="pipe.model")
    if plan.needs_tokenizers or config.stop_strings:
        lines.append("tokenizer = pipe.tokenizer")
    if not plan.own:
        lines.append(f"set_seed({plan.trace.seed})")
    arguments = generate_argument_code(told) + (["ids_only=True"] if plan.own else [])
    encode = prompt_options(plan.trace)
    arguments += [f"tokenizer_encode_kwargs={encode!r}"] if encode else []
    lines.append(f"out = pipe({', '.join([repr(plan.trace.prompt), *arguments])})")
    lines.append("""print(*(answer["generated_text"] for answer in out), sep='\\n')""")
    return "\n".join(lines)
