"""All settings of a process; the environment variable PLAYGROUND_<NAME> overrides each.

``python -m engine docs`` writes docs/settings.md from this module.
"""

from __future__ import annotations

import ast
import inspect
import os
from dataclasses import dataclass, fields
from functools import cache

_SECRET_MARKERS = ("TOKEN", "SECRET", "PASSWORD", "KEY")


@dataclass(frozen=True)
class Settings:
    """Settings of one process, read once at start.

    docs/settings.md and the audit page show the docstring below each field as its meaning.
    """

    max_prompt_chars: int = 8000
    """Most characters of a prompt, of a conversation, or of a text for a branch or a watermark
    test."""
    max_prompt_tokens: int = 2048
    """Most tokens of a prompt, including the tokens of a picture."""
    max_messages: int = 64
    """Most messages in a conversation."""
    max_template_s: float = 5.0
    """Most seconds for a model's chat template, which is a program from the model's author."""
    max_public_grammar_s: float = 1.0
    """Most seconds to compile a grammar on a public Space; elsewhere those of a chat template."""
    max_template_chars: int = 200_000
    """Most characters that a chat template may return for a conversation."""
    max_new_tokens: int = 512
    """Most new tokens that a run may ask for, for each output."""
    max_top_candidates: int = 50
    """Most candidates that a run may record for each step."""
    max_beams: int = 16
    """Most beams of one beam search."""
    max_return_sequences: int = 8
    """Most outputs of one run."""
    max_concurrent_runs: int = 1
    """Most runs that compute at the same time; runs that share forward passes count as one."""
    max_shared_runs: int = 8
    """Most sequences of greedy search, sampling and watermarks that share forward passes of one
    model; 1 runs them one after the other."""
    max_banned_sequences: int = 2048
    """Most entries of bad_words_ids after its texts are converted to ids."""
    max_waiting_runs: int = 32
    """Most runs in the queue; further runs are refused. With replicas, this many may wait for
    each of them."""
    max_runs_per_address: int = 16
    """Most waiting and active runs of one address on a public Space."""
    max_public_tune_runs: int = 200
    """Most runs of one table of prompts, settings and seeds on a public Space."""
    max_runtime_s: float = 300.0
    """Most seconds that one run may compute."""
    max_check_s: float = 60.0
    """Most seconds for the exported code of a run when it is checked."""
    max_loaded_models: int = 6
    """Most models in memory; the least recently used are removed first."""
    max_model_memory_gb: float = 8.0
    """Memory for all loaded models together; a model that needs more is refused."""
    max_model_files_gb: float = 20.0
    """Largest total size of the files of one hub model."""
    max_hub_gb: float = 40.0
    """Disk space for hub models on a public Space; the least recently used are deleted first."""
    max_parts_gb: float = 20.0
    """Disk space for interrupted downloads; the oldest are deleted first. On a public Space
    max_hub_gb includes them."""
    parts_age_s: float = 604_800.0
    """How long an interrupted download is kept for another try."""
    max_downloads: int = 2
    """Most models that are downloaded at the same time."""
    load_timeout_s: float = 900.0
    """Most seconds for downloading one model from the hub, or for loading one for a custom
    method."""
    allowed_models: str = ""
    """Hub models that a public Space offers: ids separated by spaces."""
    public_weights: str = "float32"
    """Weight formats that a public Space offers in addition to its default, separated by spaces.
    Possible are float32, bfloat16, float16, 8bit, 4bit, fp4, double_quant, auto, openvino and
    openvino-int8."""
    max_request_bytes: int = 1_000_000
    """Largest body of a request that carries no file, picture or sound."""
    max_body_s: float = 60.0
    """How long a request, or its headers, may take to come, and how long a client may read nothing
    of its answer."""
    max_trace_bytes: int = 32_000_000
    """Largest trace file, also after decompression, and the largest record of a custom method."""
    max_uploads_bytes: int = 200_000_000
    """Total size of uploaded files; the oldest are deleted first."""
    uploads_age_s: float = 600.0
    """How long an uploaded file may wait to be read before it is deleted."""
    max_picture_bytes: int = 20_000_000
    """Largest file of a picture."""
    max_picture_pixels: int = 40_000_000
    """Most pixels that a picture's header may declare; checked before decoding."""
    max_picture_side: int = 30_000
    """Most pixels of a picture's width or height; checked before decoding."""
    max_sound_bytes: int = 25_000_000
    """Largest file of a sound."""
    max_sound_s: float = 30.0
    """Longest sound, one window of Whisper; checked before decoding."""
    max_open_s: float = 10.0
    """Most seconds for decoding a picture or a sound; a small file can need much work."""
    max_kept_media_bytes: int = 64_000_000
    """Memory for decoded pictures and sounds; the least recently used are dropped first."""
    max_kept_media: int = 100
    """Most decoded pictures and sounds in memory; the least recently used are dropped first."""
    max_held_media_bytes: int = 240_000_000
    """Memory for the files of visitors' pictures and sounds; the least recently used are dropped
    first."""
    max_visitor_media_bytes: int = 60_000_000
    """Part of max_held_media_bytes that the files of one visitor may use."""
    media_age_s: float = 900.0
    """How long an unused picture or sound is kept."""
    max_call_bytes: int = 36_000_000
    """Largest body of an API call, which may include a picture or a sound in base64."""
    updates_per_s: float = 10.0
    """Most updates per second that a page receives about a run or a classroom."""
    cuda_graphs: bool = True
    """Whether a GPU replays single-token passes from CUDA graphs where that is faster."""
    max_method_s: float = 120.0
    """Most seconds for a custom method, including the start of its process."""
    max_method_memory_gb: float = 2.0
    """Memory for a custom method in addition to its model."""
    allowed_methods: str = ""
    """Custom methods of the hub that a public Space runs: ``owner/name@commit#sha256``, separated
    by spaces. ``python -m engine method show`` prints the hash."""
    methods: str = "~/.cache/decoding-playground/methods"
    """Folder for custom methods: downloaded ones, those written on the page, their names and
    confirmations."""
    spare_method_s: float = 300.0
    """How long a process with a loaded model waits for the next custom method; 0 starts none in
    advance."""
    max_rich_bytes: int = 500_000_000
    """Largest file of transformers' outputs for one run: scores, logits, hidden states and
    attentions."""
    max_public_rich_bytes: int = 50_000_000
    """Largest file of transformers' outputs for one run on a public Space."""
    max_kept_bytes: int = 256_000_000
    """Memory for the logits of recent runs, which answer questions about a step; the oldest run is
    dropped first."""
    max_kept_run_bytes: int = 64_000_000
    """Part of max_kept_bytes that the logits of one run may use."""
    max_kept_runs: int = 64
    """Most runs whose logits are kept in memory."""
    max_asking_s: float = 20.0
    """Most seconds for one question about a recorded run."""
    max_attention_bytes: int = 512_000_000
    """Memory for the attention of a step, or for the scores of leave-one-out texts, at one time."""
    max_asking_positions: int = 1024
    """Most tokens, summed over the texts of a batch, in one leave-one-out pass."""
    max_asking_pictures: int = 8
    """Most pictures or sounds in one leave-one-out pass."""
    max_left_out_parts: int = 64
    """Most parts of a picture or a sound in leave-one-out; larger ones are divided into bigger
    parts."""
    away_s: float = 30.0
    """How long a run continues after its page has disconnected; a page that reconnects misses
    nothing."""
    unheard_s: float = 1.5
    """How long a run continues if no page ever listened to it."""
    models: str = "~/.cache/decoding-playground/models"
    """Folder of the models that ``python -m engine fetch`` installs, and of converted models."""
    lessons: str = ""
    """Folder of additional lessons; a lesson in it replaces a built-in one of the same name."""
    max_rooms: int = 50
    """Most classrooms at the same time."""
    max_rooms_per_address: int = 10
    """Most classrooms opened from one address."""
    max_room_people: int = 200
    """Most people in one classroom."""
    room_idle_s: float = 10_800.0
    """How long an unused classroom stays open."""
    room_joins_per_minute: int = 60
    """Most people per minute who enter classrooms from one address; a school may share one
    address."""
    room_wrong_codes_per_minute: int = 30
    """Most wrong classroom codes per minute from one address."""
    journal: str = "~/.cache/decoding-playground/journal.db"
    """Storage of recent runs and classrooms, which survive a restart and which several servers may
    share. It is a file or a database URL of SQLAlchemy; empty stores nothing."""
    process_gone_s: float = 10.0
    """Seconds without a heartbeat after which a process that shares the database counts as gone."""
    journal_age_s: float = 3600.0
    """How long the storage keeps a run."""
    max_journal_bytes: int = 200_000_000
    """Total size of the stored runs; the oldest are deleted first."""
    metrics_token: str = ""
    """Bearer token for /metrics; if empty, only this machine may read it, and on a public Space
    nobody."""
    log_format: str = "text"
    """Log format: ``text``, or ``json`` for one object per line."""
    log_level: str = ""
    """Lowest level that is logged: ``debug``, ``info``, ``warning`` or ``error``; empty means
    ``warning`` for text and ``info`` for json."""
    engine: str = "local"
    """Where runs are computed: ``local`` for this process, ``ray`` for replicas on this machine,
    ``ray://host:port`` for the replicas of a cluster."""
    replicas: int = 2
    """Number of replicas to start if PLAYGROUND_ENGINE is ray and none are running."""
    max_replica_runs: int = 16
    """Most runs in one replica, including its queue; further runs wait in the web process."""
    max_unanswered_s: float = 120.0
    """Most seconds that a run waits for a replica to answer."""
    object_store_mb: float = 200.0
    """Memory that Ray shares between its processes on one machine; the events of a run need
    little."""
    mcp: bool = False
    """Whether agents find the strategies as tools of the Model Context Protocol, at
    /gradio_api/mcp."""
    max_sessions: int = 100
    """Most visitors for whom Gradio keeps a copy of the page's components."""
    proxies: str = ""
    """Addresses or networks of the proxies in front of the page, separated by spaces, whose
    X-Forwarded headers count. Those of this machine itself always count, and all on a Space."""
    endpoints: str = ""
    """Base addresses of model servers, separated by spaces. A public Space uses no others; elsewhere,
    addresses of private networks must be listed, those of this machine and the internet need not."""
    max_endpoint_bytes: int = 20_000_000
    """Largest answer of a model server to one request."""
    max_endpoint_s: float = 120.0
    """Most seconds for a model server's answer to one request."""
    max_endpoint_requests: int = 1024
    """Most requests to a model server in one run."""
    public: bool = False
    """Whether this is a public Space, where folders are not models and remote code is refused. The
    default is yes if SPACE_ID is set."""


@dataclass(frozen=True)
class Variable:
    """An environment variable that is read elsewhere and is no field of ``Settings``."""

    name: str
    default: str
    """Shown in docs/settings.md; empty for a variable that is not set by default."""
    meaning: str


_PASSED_ON = "also passed to the process of a custom method."
OTHER_VARIABLES = (
    Variable(
        "PLAYGROUND_HOST",
        "127.0.0.1",
        "Network address that the page listens on. The default is 0.0.0.0 if SPACE_ID is set.",
    ),
    Variable("PLAYGROUND_PORT", "7860", "Port that the page listens on."),
    Variable(
        "PLAYGROUND_HOSTS",
        "",
        "Host names, separated by spaces, under which the page may be opened in addition to"
        " 127.0.0.1, localhost and [::1]. A public Space accepts every host name.",
    ),
    Variable(
        "PLAYGROUND_FRAMES",
        "",
        "Origins, separated by spaces, of other sites that may show the page in a frame. A public"
        " Space always allows the pages of the hub.",
    ),
    Variable(
        "PLAYGROUND_COMMIT",
        "",
        "Commit that the audit page shows for this version; if empty, git is asked.",
    ),
    Variable(
        "PLAYGROUND_ENDPOINT_KEYS",
        "",
        "Keys for model servers: a base address and its key, then the next pair, all separated by"
        " spaces. A key is sent to its own address only, and appears in no file, link or message.",
    ),
    Variable("PLAYGROUND_MODEL_DIR", "assets/models", "Folder of the embedded models."),
    Variable(
        "SPACE_ID",
        "",
        "Name of the Space. The hub sets it on its Spaces, and the playground is then public.",
    ),
    Variable("SPACES_ZERO_GPU", "", "1 or true on a Space with a ZeroGPU. The hub sets it."),
    Variable(
        "HF_TOKEN",
        "",
        "Access token of the hub. Uploads need it; downloads use it, but never on a public Space.",
    ),
    Variable("HF_HUB_OFFLINE", "", "1 switches the hub off; only models on this machine load."),
    Variable(
        "HF_ENDPOINT", "https://huggingface.co", "Address of the hub, read by huggingface_hub."
    ),
    Variable(
        "HF_HOME",
        "~/.cache/huggingface",
        "Folder of the hub's files on this machine, read by huggingface_hub.",
    ),
    Variable(
        "HF_HUB_CACHE", "$HF_HOME/hub", "Folder of downloaded hub models, read by huggingface_hub."
    ),
    Variable(
        "HF_HUB_DISABLE_TELEMETRY",
        "1",
        "Whether huggingface_hub reports nothing about its use; app.py sets this default.",
    ),
    Variable(
        "GRADIO_ANALYTICS_ENABLED",
        "False",
        "Whether Gradio reports its use; app.py sets this default.",
    ),
    Variable(
        "GRADIO_ANALYTICS_CACHE_FREQUENCY",
        "1000000000",
        "Number of events after which Gradio computes statistics of its queue, which the page does"
        " not show.",
    ),
    Variable(
        "GRADIO_TEMP_DIR",
        "the system's temporary folder",
        "Folder in which the server creates a new folder for uploaded files. It deletes only that"
        " one, when it ends or at the next start.",
    ),
    Variable(
        "RAY_AUTH_MODE",
        "",
        "Ray's authentication, such as token. A web process that joins replicas needs the value"
        " that ``python -m engine serve`` prints.",
    ),
    Variable(
        "RAY_worker_niceness",
        "0",
        "Niceness of Ray's worker processes, read by Ray; 19 leaves the CPU to all other programs.",
    ),
    Variable("OMP_NUM_THREADS", "", f"Number of CPU threads, read by torch; {_PASSED_ON}"),
    Variable(
        "MKL_NUM_THREADS", "", f"Number of CPU threads of the MKL library, read by it; {_PASSED_ON}"
    ),
    Variable("PATH", "", f"Folders of programs, searched for git; {_PASSED_ON}"),
    Variable("LANG", "", f"Language and encoding of the system; {_PASSED_ON}"),
    Variable("LC_ALL", "", f"Overrides LANG; {_PASSED_ON}"),
)
"""Every environment variable that the product reads and that is no field of ``Settings``."""


@cache
def read_meanings() -> dict[str, str]:
    """Return field -> meaning of ``Settings``: the docstring below each field, on one line."""
    # Python drops strings below fields at runtime, so the source is parsed.
    (declared,) = ast.parse(inspect.getsource(Settings)).body
    found: dict[str, str] = {}
    name = ""
    for part in getattr(declared, "body", []):
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            name = part.target.id
        elif isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and name:
            found[name] = " ".join(str(part.value.value).split())
    return found


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
            # The annotations are strings in this module, so the default tells the type.
            values[setting.name] = _parse_value(name, env[name], type(setting.default))
    return Settings(**values)  # type: ignore[arg-type]


def _parse_value(name: str, text: str, kind: type) -> int | float | bool | str:
    if kind is bool:
        return text.strip().lower() in ("1", "true", "yes")
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{name} = {text!r} is not a {kind.__name__}") from None


SETTINGS = read_settings()


def child_environment(*, secrets: bool) -> dict[str, str]:
    """Return the environment variables for a child process.

    Args:
        secrets: whether to include variables whose name contains TOKEN, SECRET, PASSWORD or KEY.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if secrets or not any(part in name.upper() for part in _SECRET_MARKERS)
    }
