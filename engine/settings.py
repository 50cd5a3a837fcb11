"""Every limit in one place; each can be overridden by an environment variable PLAYGROUND_<NAME>."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

_SECRETS = ("TOKEN", "SECRET", "PASSWORD", "KEY")


@dataclass(frozen=True)
class Settings:
    """Limits of one process, read once at start."""

    max_prompt_chars: int = 8000
    max_prompt_tokens: int = 2048
    max_messages: int = 64
    max_template_s: float = 5.0
    """How long a model's chat template may take; it is a program that came with the model."""
    max_template_chars: int = 200_000
    """The most that it may make of a conversation."""
    max_new_tokens: int = 512
    max_top_candidates: int = 50
    max_beams: int = 16
    max_return_sequences: int = 8
    max_concurrent_runs: int = 1
    max_shared_runs: int = 8
    """Texts of greedy search, sampling and watermarks that may grow side by side, their passes over one model
    shared; 1 for one run after the other."""
    max_banned_sequences: int = 2048
    """Most entries of bad_words_ids once its texts are spelled as ids."""
    max_waiting_runs: int = 32
    max_runs_per_address: int = 16
    """Of these and those under way, the most of one address of a public Space."""
    max_runtime_s: float = 300.0
    max_check_s: float = 60.0
    """How long the exported code of a run may take when it is checked."""
    max_loaded_models: int = 6
    max_model_memory_gb: float = 8.0
    max_model_files_gb: float = 20.0
    """The most that the files of one model of the hub may have."""
    max_hub_gb: float = 40.0
    """All models of the hub that a public Space keeps on its disk; what was used longest ago goes first."""
    max_parts_gb: float = 20.0
    """What is kept of downloads that were broken off; the oldest go first. On a public Space max_hub_gb counts it."""
    parts_age_s: float = 604_800.0
    """How long that is kept for another try."""
    max_downloads: int = 2
    """Models that are fetched at once."""
    load_timeout_s: float = 900.0
    """How long the hub may take for one model."""
    allowed_models: str = ""
    """Of the hub's models, those that a public Space offers: ids with spaces between them."""
    public_weights: str = "float32"
    """How weights may be held on a public Space besides its default: of float32, bfloat16, float16, 8bit,
    4bit, double_quant, auto, openvino and openvino-int8, with spaces between them."""
    max_request_bytes: int = 1_000_000
    max_body_s: float = 60.0
    """How long a request, or its headers, may take to come."""
    max_trace_bytes: int = 32_000_000
    max_uploads_bytes: int = 200_000_000
    """All files together that visitors have uploaded; the oldest go first."""
    uploads_age_s: float = 600.0
    max_picture_bytes: int = 20_000_000
    """The most that the file of a picture may have."""
    max_picture_pixels: int = 40_000_000
    """The most pixels that it may say it has; asked before any is decoded."""
    max_sound_bytes: int = 25_000_000
    """The most that the file of a sound may have."""
    max_sound_s: float = 30.0
    """How long a sound may be, asked before it is decoded; one window of Whisper."""
    max_open_s: float = 10.0
    """How long a picture or a sound may take to open; a file can ask for more work than it looks."""
    max_kept_media_bytes: int = 64_000_000
    """Memory for pictures and sounds that were opened of late; what was used longest ago goes first."""
    max_kept_media: int = 100
    max_held_media_bytes: int = 240_000_000
    """Memory for the files of pictures and sounds that visitors have given; what was used longest ago goes first."""
    max_visitor_media_bytes: int = 60_000_000
    """The most of it that one visitor's may take."""
    media_age_s: float = 900.0
    """How long one stays that nobody uses."""
    max_call_bytes: int = 36_000_000
    """The body of a program's call, which may bring a picture or a sound along in base64."""
    updates_per_s: float = 10.0
    cuda_graphs: bool = True
    """Whether a GPU repeats its passes over one token from CUDA graphs, where those are quicker."""
    max_method_s: float = 120.0
    """How long a custom method may take, the start of its process included."""
    max_method_memory_gb: float = 2.0
    """Memory that it may take beyond what its model takes."""
    allowed_methods: str = ""
    """Of the hub's custom methods, those that a public Space runs: ``owner/name@commit#sha256`` with spaces
    between them, the sum as ``python -m engine method show`` tells it."""
    methods: str = "~/.cache/decoding-playground/methods"
    """Where custom methods are kept: fetched ones, the page's own, what their names mean and which are confirmed."""
    spare_method_s: float = 300.0
    """How long a process with a model in its memory waits for the next custom method; 0 for not at all."""
    max_rich_bytes: int = 500_000_000
    """The most that transformers' own outputs of one run may take: scores, logits, hidden states and attentions."""
    max_public_rich_bytes: int = 50_000_000
    """The same on a public Space."""
    max_kept_bytes: int = 256_000_000
    """Memory for the logits of recent runs, of which a step can be asked; the oldest run goes first."""
    max_kept_run_bytes: int = 64_000_000
    """The most of it that one run may take."""
    max_kept_runs: int = 64
    max_asking_s: float = 20.0
    """How long one question about a recorded run may compute."""
    max_attention_bytes: int = 512_000_000
    """Memory that the attention of a step, or the scores of texts with a token left out, may take at once."""
    max_asking_positions: int = 1024
    """Tokens of all texts together that one pass reads while tokens are left out, one after the other."""
    max_asking_pictures: int = 8
    """Pictures or sounds that one pass reads while their parts are."""
    max_left_out_parts: int = 64
    """Parts of a picture or a sound that are left out; it is cut more coarsely for more."""
    away_s: float = 30.0
    """How long what a page has begun goes on while nobody listens; whoever comes back misses nothing."""
    unheard_s: float = 1.5
    """The same for what was asked for by nobody that ever listened."""
    models: str = "~/.cache/decoding-playground/models"
    """Where ``python -m engine fetch`` keeps the models that it brings."""
    lessons: str = ""
    """A folder with lessons of one's own, beside those that come along."""
    max_rooms: int = 50
    """Rooms in which classes bet on lessons, at once."""
    max_rooms_per_address: int = 10
    """Of these, the most that are opened from one address."""
    max_room_people: int = 200
    room_idle_s: float = 10_800.0
    """How long a room stays open that nobody enters, bets or teaches in."""
    room_joins_per_minute: int = 60
    """How many people may enter rooms from one address; a school has one for all."""
    room_wrong_codes_per_minute: int = 30
    """How often an address may ask for a room that is not there."""
    journal: str = "~/.cache/decoding-playground/journal.db"
    """Where the runs of late and the rooms are kept for a server that is started anew, and for several that share
    it: a file, or the address of a database as SQLAlchemy writes it; empty for nowhere."""
    process_gone_s: float = 10.0
    """After how long a process that says nothing to the others at its database counts as gone."""
    journal_age_s: float = 3600.0
    max_journal_bytes: int = 200_000_000
    """All runs in it together; the oldest go first."""
    metrics_token: str = ""
    """Whoever brings it as a bearer token may read /metrics; empty, only this machine itself may, and on a
    public Space nobody."""
    log_format: str = "text"
    """How the log is written: ``text``, or ``json`` for one object a line."""
    log_level: str = ""
    """The least that is logged: ``debug``, ``info``, ``warning`` or ``error``; empty, it is ``warning`` for text
    and ``info`` for json."""
    engine: str = "local"
    """Where runs are computed: local for this process, ray for replicas on this machine, ray://host:port for
    those of a cluster."""
    replicas: int = 2
    """How many are started where PLAYGROUND_ENGINE is ray and none are there."""
    max_replica_runs: int = 16
    """Runs that a replica takes at once, those in its line included; others wait with whoever asks."""
    max_unanswered_s: float = 120.0
    """How long a run waits while no replica answers."""
    object_store_mb: float = 200.0
    """Memory that Ray shares between its processes on a machine; the events of a run take little of it."""
    max_sessions: int = 100
    """Visitors of whom Gradio keeps its copy of the page's components."""
    public: bool = False
    """On a public Space: no folder as a model, no remote code. Set when SPACE_ID is present."""


def read_settings(environ: dict[str, str] | None = None) -> Settings:
    """Read the settings from the environment.

    Raises:
        ValueError: a variable is not a number; the message names it.
    """
    env = dict(os.environ) if environ is None else environ
    values: dict[str, int | float | bool | str] = {"public": bool(env.get("SPACE_ID"))}
    for setting in fields(Settings):
        name = f"PLAYGROUND_{setting.name.upper()}"
        if name in env:
            values[setting.name] = _number(name, env[name], type(setting.default))
    return Settings(**values)  # type: ignore[arg-type]


def _number(name: str, text: str, kind: type) -> int | float | bool | str:
    if kind is bool:
        return text.strip().lower() in ("1", "true", "yes")
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{name} = {text!r} is not a {kind.__name__}") from None


SETTINGS = read_settings()


def environment(*, secrets: bool) -> dict[str, str]:
    """Return the environment of a process that this one starts.

    Args:
        secrets: whether what looks like a secret goes along.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if secrets or not any(part in name.upper() for part in _SECRETS)
    }
