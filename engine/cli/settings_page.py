"""Generates docs/settings.md: every environment variable that the product reads."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from dataclasses import fields
from pathlib import Path

from engine.errors import EngineError
from engine.settings import OTHER_VARIABLES, Settings, Variable, read_meanings

_HEAD = """# Settings

<!-- Written by `python -m engine docs` from engine/settings.py; a change made here is lost. -->

Environment variables configure the playground. Set them before it starts, for example:

```sh
PLAYGROUND_PORT=8000 PLAYGROUND_MAX_NEW_TOKENS=1024 make run
```

Each entry shows the name, the default with its unit in parentheses, and the meaning. Write a value without its unit.
A GB is 10⁹ bytes and an MB is 10⁶ bytes. For yes write 1, true or yes; any other text means no.
"""
_WIDTH = 120
_UNITS = {
    "per_minute": "per minute",
    "per_s": "per second",
    "s": "seconds",
    "bytes": "bytes",
    "gb": "GB",
    "mb": "MB",
    "chars": "characters",
    "tokens": "tokens",
    "pixels": "pixels",
}
"""End of a field's name -> its unit. The first that fits applies."""
_LARGER = {
    "bytes": ((1e6, "MB"),),
    "seconds": ((86_400, "days"), (7200, "hours"), (3600, "hour")),
}
"""Unit -> larger units, largest first, in which a large default is shown as well."""
_TOPICS = {
    "Address of the page": """PLAYGROUND_HOST PLAYGROUND_PORT PLAYGROUND_HOSTS PLAYGROUND_FRAMES
        PLAYGROUND_COMMIT""",
    "Public Space": """public SPACE_ID SPACES_ZERO_GPU allowed_models public_weights
        allowed_methods max_runs_per_address max_hub_gb max_public_rich_bytes""",
    "Prompts and parameters": """max_prompt_chars max_prompt_tokens max_messages max_template_s
        max_template_chars max_new_tokens max_top_candidates max_beams max_return_sequences
        max_banned_sequences""",
    "Runs and the queue": """max_concurrent_runs max_shared_runs max_waiting_runs max_runtime_s
        updates_per_s away_s unheard_s max_sessions cuda_graphs max_check_s""",
    "Models": """models PLAYGROUND_MODEL_DIR max_loaded_models max_model_memory_gb
        max_model_files_gb max_parts_gb parts_age_s max_downloads load_timeout_s""",
    "The hub": """HF_TOKEN HF_HUB_OFFLINE HF_ENDPOINT HF_HOME HF_HUB_CACHE
        HF_HUB_DISABLE_TELEMETRY""",
    "Requests and uploads": """max_request_bytes max_call_bytes max_body_s max_trace_bytes
        max_uploads_bytes uploads_age_s GRADIO_TEMP_DIR GRADIO_ANALYTICS_ENABLED
        GRADIO_ANALYTICS_CACHE_FREQUENCY""",
    "Pictures and sounds": """max_picture_bytes max_picture_pixels max_sound_bytes max_sound_s
        max_open_s max_kept_media_bytes max_kept_media max_held_media_bytes
        max_visitor_media_bytes media_age_s""",
    "Custom methods": "methods max_method_s max_method_memory_gb spare_method_s",
    "Questions about a recorded run": """max_kept_bytes max_kept_run_bytes max_kept_runs
        max_asking_s max_attention_bytes max_asking_positions max_asking_pictures
        max_left_out_parts max_rich_bytes""",
    "Lessons and classrooms": """lessons max_rooms max_rooms_per_address max_room_people
        room_idle_s room_joins_per_minute room_wrong_codes_per_minute""",
    "Storage and several web processes": """journal journal_age_s max_journal_bytes
        process_gone_s""",
    "Metrics and logs": "metrics_token log_format log_level",
    "Replicas": """engine replicas max_replica_runs max_unanswered_s object_store_mb RAY_AUTH_MODE
        RAY_worker_niceness""",
    "The system": "OMP_NUM_THREADS MKL_NUM_THREADS CUDA_VISIBLE_DEVICES PATH LANG LC_ALL",
}
"""Topic -> fields of ``Settings`` and names of ``OTHER_VARIABLES``, in the order of the page."""


def settings_page(root: Path) -> str:
    """Return docs/settings.md as Markdown; ``root`` is ignored, as only declarations matter.

    Raises:
        EngineError: a variable has no topic or several, or a field of ``Settings`` has no docstring.
    """
    del root
    declared = _declared_variables()
    listed = Counter(name for names in _TOPICS.values() for name in names.split())
    wrong = sorted(name for name in {*declared, *listed} if listed[name] != 1)
    wrong += sorted(name for name in listed if name not in declared)
    if wrong:
        raise EngineError(f"docs/settings.md needs one topic for each variable: {', '.join(wrong)}")
    parts = [_HEAD]
    for topic, names in _TOPICS.items():
        entries = "\n".join(_format_entry(declared[name]) for name in names.split())
        parts.append(f"## {topic}\n\n{entries}\n")
    return "\n".join(parts)


def _declared_variables() -> dict[str, Variable]:
    """Return every variable by the name that the topics use: a field's name, or its own."""
    meanings = read_meanings()
    bare = [field.name for field in fields(Settings) if field.name not in meanings]
    if bare:
        raise EngineError(f"Settings needs a docstring below each field: {', '.join(bare)}")
    own = {
        field.name: Variable(
            variable_name(field.name),
            _format_default(field.name, field.default),
            _link_fields(meanings[field.name]),
        )
        for field in fields(Settings)
    }
    return own | {variable.name: variable for variable in OTHER_VARIABLES}


def variable_name(field: str) -> str:
    """Return the environment variable that sets a field of ``Settings``."""
    return f"PLAYGROUND_{field.upper()}"


def _format_default(field: str, default: object) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    if not isinstance(default, int | float):
        return str(default)
    unit = next((unit for end, unit in _UNITS.items() if field.endswith(f"_{end}")), "")
    # A plain number can be copied as the variable's value.
    plain = f"{default:.15g} {unit}".strip()
    larger = next(
        (f", {default / size:g} {name}" for size, name in _LARGER.get(unit, ()) if default >= size),
        "",
    )
    return plain + larger


def _link_fields(meaning: str) -> str:
    """Replace the fields that a meaning names by their environment variables."""
    named = "|".join(field.name for field in fields(Settings) if "_" in field.name)
    return re.sub(rf"\b({named})\b", lambda found: variable_name(found[0]), meaning)


def _format_entry(variable: Variable) -> str:
    meaning = variable.meaning.replace("``", "`")
    text = f"- **{variable.name}** ({variable.default or 'empty'}): {meaning}"
    return textwrap.fill(
        text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
