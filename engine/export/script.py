"""The Python script of a run; it needs transformers and, for some runs, the folder of a loop."""

from __future__ import annotations

import inspect
from textwrap import indent

from engine.export.filter_code import filter_arguments, filter_imports, filter_sources
from engine.export.folder import folder_files, folder_sha256
from engine.export.media_code import media_constants, media_imports, model_input_lines
from engine.export.plan import ConfigObject, Plan, ScriptModel
from engine.export.short_script import (
    PAD_NOTE,
    fixed_threshold_lines,
    is_from_chat_template,
    literal_note_lines,
    short_code,
    value_to_code,
)
from engine.export.weights_code import (
    assistant_line,
    backend_lines,
    load_lines,
    quantization_imports,
)
from engine.loops import prefix_constraint
from engine.models.readers.families import BLIP, WHISPER
from engine.run.generation import reads_texts
from engine.sources.installable import fetch_command

SHORT_DOCSTRING = '"""The run in plain generate(); nothing below needs it."""'
_HORIZONTAL_RULE = f"# {'-' * 77}"
EXACT_RUN_HEADING = f"""{_HORIZONTAL_RULE}
# The same run exactly as it was recorded: all that follows, which prints its tokens.
{_HORIZONTAL_RULE}"""
IDS_PREFIX = "token_ids "
"""Start of the line with a list of ids that the code prints for each sequence."""


def code_sections(plan: Plan) -> list[tuple[str, str]]:
    """Return the sections of the script as (title, code), in order."""
    parts = [("Imports and the run's constants", _head_code(plan))]
    if plan.has_folder:
        parts.append(
            (
                f"The {_folder_content(plan)} in the folder beside this file, unchanged",
                _folder_check_code(plan),
            )
        )
    parts.append(("The model", _model_code(plan)))
    if filter_sources(plan):
        parts.append(("The filters that transformers does not have", filter_sources(plan)))
    parts.append(("The parameters", _config_code(plan)))
    parts.append(("The run", _run_code(plan)))
    return parts


def script_text(plan: Plan) -> str:
    """Return the script, which prints a line ``token_ids [...]`` and the text of every sequence."""
    body = "\n\n".join(f"# {title}\n{code}" for title, code in code_sections(plan))
    return f'"""{code_summary(plan)}"""\n\n{_short_function(plan)}{body}\n'


def _short_function(plan: Plan) -> str:
    """Return the function with the short script and the heading of the exact run."""
    lines = short_code(plan)
    if lines is None:
        return ""
    inside = indent(lines, "    ")
    return f"\ndef in_short():\n    {SHORT_DOCSTRING}\n{inside}\n\n\n{EXACT_RUN_HEADING}\n\n"


def code_summary(plan: Plan) -> str:
    """Return a description of the code for its docstring."""
    trace = plan.trace
    versions = ", ".join(f"{name} {version}" for name, version in sorted(trace.versions.items()))
    how = (
        f"The folder {_escape_comment(plan.folder_name)} beside this file holds the method, "
        "whose code was not written here."
        if plan.method
        else f"The folder {plan.folder_name} beside this file holds the loop: {plan.own.why}."
        if plan.own
        else "transformers' own generate() gives the same tokens."
    )
    lines = [
        f"{plan.strategy.title} with seed {trace.seed}, recorded by the Decoding Playground.",
        "",
        how,
        f"Recorded with {_escape_comment(versions)}; other versions may give other tokens.",
    ]
    lines += backend_lines(plan)
    if plan.model.embedded:
        lines.append("Run it in the playground's repository, or set MODEL to your copy's folder.")
    return "\n".join(lines)


def _folder_content(plan: Plan) -> str:
    return "method" if plan.method else "loop"


def _escape_comment(text: str) -> str:
    """Return `text` without characters that could end a docstring or a comment."""
    return "".join(c for c in text if c.isprintable()).replace("\\", "/").replace('"', "'")


def _head_code(plan: Plan) -> str:
    packages, needed = media_imports(plan)
    names = [
        "GenerationConfig",
        plan.auto,
        *_config_class_names(plan),
        *quantization_imports(plan),
        *needed,
        *filter_imports(plan),
    ]
    if _has_tokenizer(plan):
        names.append("AutoTokenizer")
    if plan.config.stop_strings:
        names.append("StopStringCriteria")
    names += [name for name in ("DynamicCache", "EncoderDecoderCache") if name in _cache_code(plan)]
    standard = ["import hashlib"] if plan.has_folder else []
    standard += ["import random"] if plan.method else []
    standard += ["from pathlib import Path", ""] if plan.has_folder else []
    lines = [
        *standard,
        *(["import numpy"] if plan.method else []),
        *packages,
        "import torch",
        f"from transformers import {', '.join(sorted(set(names)))}",
        "",
        f"MODEL = {_place_code(plan.model)}",
        f"REVISION = {plan.model.info.revision!r}",
    ]
    if plan.assistant:
        lines.append(f"ASSISTANT = {_place_code(plan.assistant)}")
        lines.append(f"ASSISTANT_REVISION = {plan.assistant.info.revision!r}")
    lines += [
        f"DEVICE = {plan.model.info.device!r}",
        f"SEED = {plan.trace.seed!r}",
        *_prompt_lines(plan),
        *media_constants(plan),
        f"END = {list(plan.trace.eos_token_ids) or None!r}  # end-of-sequence ids",
    ]
    return "\n".join(lines)


def _prompt_lines(plan: Plan) -> list[str]:
    trace = plan.trace
    ids = f"PROMPT_IDS = {list(trace.prompt_ids)!r}"
    if trace.messages is None:
        made = "  # what its tokenizer makes of PROMPT" if trace.prompt else ""
        return [f"PROMPT = {trace.prompt!r}", *literal_note_lines(trace), ids + made]
    return [
        f"MESSAGES = {[dict(message) for message in trace.messages]!r}",
        f"TEMPLATE = {trace.template!r}",
        *literal_note_lines(trace),
        f"{ids}  # what its chat template makes of MESSAGES",
    ]


def _prompt_tensor_lines(plan: Plan) -> list[str]:
    """Return the lines that define the prompt tensor or the media inputs."""
    if plan.media is not None:
        return model_input_lines(plan)
    ids = "prompt = torch.tensor([PROMPT_IDS], device=DEVICE)"
    if not is_from_chat_template(plan.trace):
        return [ids]
    return [
        "prompt = tokenizer.apply_chat_template(",
        '    MESSAGES, **TEMPLATE, return_tensors="pt", return_dict=True',
        ')["input_ids"].to(DEVICE)',
        "if prompt.tolist() != [PROMPT_IDS]:  # a template may write today's date",
        f"    {ids}",
    ]


def _place_code(source: ScriptModel) -> str:
    note = "  # a folder of the playground's repository" if source.embedded else ""
    if source.brought:
        note = f"  # where {fetch_command(source.info.id)} keeps it"
    if source.converted:
        note = "  # what the playground made of the file or the adapter"
    return f"{source.place!r}{note}"


def _cache_code(plan: Plan) -> str:
    """Return the cache that the code passes to generate(); empty for none."""
    # generate() sizes its own by the depth of the encoder, which may have fewer layers.
    encoded = plan.media is not None and plan.media.encodes and plan.media.kind != BLIP
    if plan.method:
        return ""
    if plan.model.info.is_encoder_decoder or encoded:
        return "EncoderDecoderCache(DynamicCache(), DynamicCache())"
    return "DynamicCache()" if plan.names_encoder_depth and plan.use_cache else ""


def _has_tokenizer(plan: Plan) -> bool:
    """Return whether the run's model had a tokenizer; a text prompt or messages imply one."""
    text = plan.trace.prompt is not None or plan.trace.messages is not None
    return (
        text or plan.needs_tokenizers or bool(plan.config.stop_strings) or reads_texts(plan.config)
    )


def _config_class_names(plan: Plan) -> list[str]:
    return [value.name for value in plan.values.values() if isinstance(value, ConfigObject)]


def _folder_check_code(plan: Plan) -> str:
    return f'''here = Path(globals().get("__file__", "notebook")).resolve().parent
FOLDER = here / {plan.folder_name!r}
found = hashlib.sha256()
code = FOLDER / "custom_generate"
for name in sorted(path.relative_to(code).as_posix() for path in code.rglob("*.py")):
    found.update(name.encode() + b"\\0" + (code / name).read_bytes() + b"\\0")
# The code below runs this folder, so it must be the one that was exported.
expected = {folder_sha256(folder_files(plan))!r}
assert found.hexdigest() == expected, "the folder was changed"'''


def _model_code(plan: Plan) -> str:
    lines = load_lines(plan, plan.auto)
    if _has_tokenizer(plan):
        lines.append("tokenizer = AutoTokenizer.from_pretrained(MODEL, revision=REVISION)")
    if plan.assistant:
        lines.append(assistant_line(plan))
    if plan.needs_tokenizers:
        lines.append("assistant_tokenizer = AutoTokenizer.from_pretrained(")
        lines.append("    ASSISTANT, revision=ASSISTANT_REVISION")
        lines.append(")")
    if plan.has_native_draft:
        owner = "assistant" if plan.assistant else "model"
        lines.append("# transformers reads these from the drafting model's own configuration.")
        lines += [f"{owner}.generation_config.{n} = {v!r}" for n, v in plan.draft_values.items()]
        lines += fixed_threshold_lines(plan)
    return "\n".join(lines)


def _config_code(plan: Plan) -> str:
    pad = [
        "pad = model.generation_config.pad_token_id",
        "if pad is None and END:",
        "    pad = END[0]",
    ]
    if plan.has_native_draft:
        pad = [f"# {PAD_NOTE}", "pad = END[0] if END else None"]
    fields = [f"    {name}={value_to_code(value)}," for name, value in plan.values.items()]
    return "\n".join(
        [
            *pad,
            *(
                f"# {_escape_comment(note)}"
                for note in plan.trace.notes
                if note.startswith("bad_words_ids:")
            ),
            "config = GenerationConfig(",
            *fields,
            "    eos_token_id=END,",
            "    pad_token_id=pad,",
            f"    use_cache={plan.use_cache},",
            ")",
        ]
    )


def _run_code(plan: Plan) -> str:
    start = "1" if plan.model.info.is_encoder_decoder else "len(PROMPT_IDS)"
    before, arguments = call_arguments(plan)
    lines = [
        *before,
        *_prompt_tensor_lines(plan),
        *([] if plan.own else _seed_lines(plan)),
        f"out = {_generate_function(plan)}(",
        *_first_arguments(plan),
        "    generation_config=config,",
        *(f"    {argument}," for argument in arguments),
        ")",
        'rows = getattr(out, "sequences", out).tolist()',
        'lengths = getattr(out, "lengths", None)',
        "for number, row in enumerate(rows):",
        f"    new = row[{start}:]",
        "    if lengths is not None:",
        "        new = new[: lengths[number]]",
        "    else:  # what follows the end of a text is padding",
        "        ends = (i + 1 for i, token in enumerate(new) if token in (END or []))",
        "        new = new[: next(ends, len(new))]",
        f'    print("{IDS_PREFIX.strip()}", new)',
    ]
    if _has_tokenizer(plan):
        lines += _print_lines(plan)
    return "\n".join(lines)


def _generate_function(plan: Plan) -> str:
    """Return the name of the function that the code calls."""
    # A speech model's own generate() cuts long sounds into windows and calls this one for each.
    speaks = plan.media is not None and plan.media.kind == WHISPER
    return "GenerationMixin.generate" if speaks else "model.generate"


def _first_arguments(plan: Plan) -> list[str]:
    if plan.media is None:
        return [
            f"    {_prompt_keyword(plan)}prompt,",
            "    attention_mask=torch.ones_like(prompt),",
        ]
    return [*(["    model,"] if plan.media.kind == WHISPER else []), "    **given,"]


def _seed_lines(plan: Plan) -> list[str]:
    """Return the lines that seed every random generator a run may use."""
    # numpy takes seeds below 2**32 only, and a run any below 2**63.
    others = ["random.seed(SEED)", "numpy.random.seed(SEED % 2**32)"] if plan.method else []
    return [*others, "torch.manual_seed(SEED)"]


def _prompt_keyword(plan: Plan) -> str:
    """Return the keyword for the prompt; without one, a method receives it as ``inputs``."""
    takes = plan.method.takes if plan.method else ()
    return "input_ids=" if "input_ids" in takes and "inputs" not in takes else ""


def _print_lines(plan: Plan) -> list[str]:
    """Return the lines that print the text of a sequence after the prompt."""
    read = "tokenizer.decode({}, skip_special_tokens=True, clean_up_tokenization_spaces=False)"
    if plan.model.info.is_encoder_decoder:
        return [f"    print({read.format('new')})"]
    return [
        f"    before = {read.format('PROMPT_IDS')}",
        f"    text = {read.format('PROMPT_IDS + new')}",
        "    print(text[len(before) :])  # decoded alone it could lose its first space",
    ]


def call_arguments(plan: Plan) -> tuple[list[str], list[str]]:
    """Return the code lines before the call of generate(), and its further arguments."""
    config, before, arguments = plan.config, [], []
    if plan.assistant:
        arguments.append("assistant_model=assistant")
    if plan.needs_tokenizers:
        arguments += ["tokenizer=tokenizer", "assistant_tokenizer=assistant_tokenizer"]
    if config.stop_strings:
        words = list(config.stop_strings)
        criterion = f"StopStringCriteria(stop_strings={words!r}, tokenizer=tokenizer)"
        arguments.append(f"stopping_criteria=[{criterion}]")
    if config.negative_prompt_ids:
        rows = max(plan.values.get("num_beams", 1) or 1, config.num_return_sequences)
        ids = list(config.negative_prompt_ids)
        negative = f"torch.tensor([{ids!r}], device=DEVICE).expand({rows}, -1)"
        arguments.append(f"negative_prompt_ids={negative}")
    if config.prefix_allowed_tokens_fn is not None:
        start = "1" if plan.model.info.is_encoder_decoder else "len(PROMPT_IDS)"
        before += [_allowed_tokens_source(), ""]
        what = (
            f"{config.prefix_allowed_tokens_fn!r}, {start}, END or (), {plan.model.info.vocab_size}"
        )
        arguments.append(f"prefix_allowed_tokens_fn=make_prefix_allowed_tokens_fn({what})")
    if plan.media is None or plan.media.kind != WHISPER:
        arguments += filter_arguments(plan)
    if cache := _cache_code(plan):
        arguments.append(f"past_key_values={cache}")
    if plan.has_folder:
        arguments += ["custom_generate=str(FOLDER)", "trust_remote_code=True"]
        arguments += ["seed=SEED"] if has_seed_argument(plan) else []
        arguments += [f"{name}={value!r}" for name, value in plan.loop_values.items()]
    return before, arguments


def has_seed_argument(plan: Plan) -> bool:
    """Return whether the exported loop or method takes the run's seed."""
    if plan.method is not None:
        return "seed" in plan.method.takes and "seed" not in plan.loop_values
    return plan.own is not None


def _allowed_tokens_source() -> str:
    """Return the source of ``make_prefix_allowed_tokens_fn`` with the import it needs."""
    # Only this function is exported, so it may use no names of its module except Any and torch.
    source = inspect.getsource(prefix_constraint.make_prefix_allowed_tokens_fn)
    return "from typing import Any\n\n\n" + source.rstrip() + "\n"
