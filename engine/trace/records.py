"""The record of a run: candidates, decisions and their reasons, step by step, without tensors.

The output after a step is ``output[:step.keep] + step.emit``; replaying the steps of a sequence
gives its final ids. Log-probabilities and entropies are in nats unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engine.errors import ParameterError
from engine.messages import Message
from engine.trace.details import Detail, ForwardDetail
from engine.trace.served import ServedInfo
from engine.trace.thinking_records import Thinking
from engine.trace.value_types import LogProb, Probability, Seconds, TokenId

D = TypeVar("D", bound=Detail)
SCHEMA = "decoding-trace/1"
COLUMNS_SCHEMA = "decoding-trace/2"
"""Schema of files, with the records of every step in columns; see ``trace.columns``."""
TEMPLATE_ROLE = "template"
ROLES = ("system", "user", "assistant", "tool")
TURN_ROLES = (*ROLES, TEMPLATE_ROLE)
MEDIA_KINDS = ("image", "audio")
METHOD_SOURCES = ("shipped", "hub", "folder", "function")
FINISH_REASONS = ("eos", "length", "stop", "cancelled", "error")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One token considered in a step."""

    token_id: TokenId
    raw_logprob: LogProb
    """The model's log-probability over the whole vocabulary, before any processor."""
    processed_logprob: LogProb
    """After all logits processors, normalised over the remaining tokens; -inf if removed."""
    rank: int
    """Rank in the model's distribution; 0 is the most probable."""
    removed_by: str | None = None
    """Name of the processor that removed it; None if it was kept."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The distribution after one logits processor."""

    name: str
    kept: int
    """Number of tokens with a non-zero probability."""
    kept_mass: Probability
    """Probability of these tokens before the processor, in [0, 1]."""
    entropy: float
    """Entropy after the processor, in nats."""
    state: float | None = None
    """The filter's own number of this step; None of filters that have none.

    XTC: its coin, in [0, 1). Mirostat: its cap, in bits. Adaptive-p: the favoured probability.
    """


@dataclass(frozen=True, slots=True)
class Step:
    """One decision of a decode loop."""

    index: int
    keep: int
    emit: tuple[TokenId, ...]
    candidates: tuple[Candidate, ...] = ()
    stages: tuple[Stage, ...] = ()
    detail: Detail | None = None
    logsumexp: float | None = 0.0
    """log(sum(exp(raw logits))) of the decided position; None if it is unknown."""
    entropy: float | None = 0.0
    """Entropy of the model's distribution before any processor, in nats; None if only its bounds
    are known, see ``ServedDetail``."""
    forward_passes: int = 1
    """Forward passes of the target model in this step."""
    elapsed_s: Seconds = 0.0
    """Seconds from the start of the run to the decision; 0 in a run that a server decoded."""
    sequence: int = 0
    """Index of the output that this step writes; above 0 only if num_return_sequences > 1."""


@dataclass(frozen=True, slots=True)
class Output:
    """One returned sequence: new tokens, including end-of-sequence, without padding."""

    token_ids: tuple[TokenId, ...]
    text: str
    finish_reason: str
    score: float | None = None
    """The strategy's ranking score (beam search: sum_logprobs / length ** length_penalty)."""


@dataclass(frozen=True, slots=True)
class EmittedToken:
    """The model's statistics of one token of a finished text, from one teacher-forced pass."""

    logprob: LogProb
    """Over the whole vocabulary, before any processor."""
    rank: int
    """Rank in the model's distribution; 0 is the most probable."""
    entropy: float
    """Entropy of that distribution, in nats."""
    top: tuple[tuple[TokenId, Probability], ...]
    """Most probable tokens: (token_id, probability)."""


@dataclass(frozen=True, slots=True)
class GrammarToken:
    """What the grammar of structured_outputs allowed where a text has one of its tokens."""

    allowed: Probability | None = None
    """The model's probability of all allowed tokens; None if no step recorded it."""
    wanted: TokenId | None = None
    """The model's most probable token, if the grammar removed it; None also if none was recorded."""
    wanted_p: Probability | None = None
    """The model's probability of that token."""
    fits: str = ""
    """The beginning of that token which the grammar takes."""
    expected: str = ""
    """In words, what may follow that beginning."""
    forced: bool = False
    """True if the grammar left no other text than what the token writes."""
    may_end: bool = False
    """True if the text may end before the token; with ``forced``, it must."""
    odd_split: bool = False
    """True if the tokenizer cuts the whole text otherwise here; False if that is unknown."""


@dataclass(frozen=True, slots=True)
class GrammarText:
    """A text under its grammar, token by token."""

    tokens: tuple[GrammarToken, ...]
    known: int
    """Number of tokens with a recorded probability of what was allowed."""
    log_allowed: float
    """Sum of the logarithms of these probabilities: how much the grammar had to push."""
    hardest: int | None
    """Index of the token where the allowed ones had the least probability."""


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """The custom generation method of a run."""

    name: str
    """Its name in the request."""
    source: str
    """One of METHOD_SOURCES."""
    sha256: str | None = None
    """SHA-256 of its code; None for a function passed as an object."""
    revision: str | None = None
    """Commit of its hub repository."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of a converted model with its original on one fixed text, token by token."""

    tokens: int
    """Length of the text in tokens."""
    same_top: float
    """Share of positions with the same most probable token."""
    kl: float
    """Mean Kullback-Leibler divergence of the converted model from the original, in nats."""
    perplexity: float
    """Perplexity of the text under the converted model."""
    torch_perplexity: float
    """Perplexity of the text under the original."""


@dataclass(frozen=True, slots=True)
class HeldWeights:
    """Weight format beyond the dtype, in transformers' names, and placement of the layers."""

    quantization: str | None = None
    """8bit (LLM.int8) or 4bit, None for none."""
    bnb_4bit_quant_type: str = "nf4"
    """nf4 or fp4: the 16 values of 4-bit weights."""
    bnb_4bit_use_double_quant: bool = False
    bnb_4bit_compute_dtype: str | None = None
    device_map: str | None = None
    """auto if the layers were spread over devices, None if all were on one."""
    max_memory: dict[str, str] | None = None
    """Device -> memory limit, such as 200MB."""
    layers_on: dict[str, int] = field(default_factory=dict)
    """Device -> number of layers: cpu, cuda:0, disk."""
    backend: str = "torch"
    """Compute backend: torch, openvino, or openvino-int8 with 8-bit matrices."""
    agreement: Agreement | None = None
    """Agreement of openvino-int8 with the float32 model, measured at conversion."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model of a run."""

    id: str
    revision: str | None = None
    dtype: str = "float32"
    device: str = "cpu"
    vocab_size: int = 0
    layers: int = 0
    is_encoder_decoder: bool = False
    weights: HeldWeights | None = None
    """Weight format; None for unquantised weights on one device in ``dtype``."""
    host: str = ""
    """Host of the server that computes the model; empty for a model on this machine."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of a run in seconds. Decoding begins after loading and queueing."""

    total_s: Seconds = 0.0
    """From the start of decoding to the last decision; 0 if a server decoded and reported none."""
    first_token_s: Seconds | None = None
    """From the start of decoding to the first decision; older files add load_s and queue_s."""
    load_s: Seconds = 0.0
    queue_s: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class Parent:
    """The branch point: the run that a branch continues, and where."""

    run_id: str
    """Id of the parent run in its session; "" if it had none."""
    step: int
    """Index of the parent's step at which the branch begins."""
    kept: int
    """Number of the parent's new tokens that were kept; the prompt ends with them and token_ids."""
    token_ids: tuple[TokenId, ...]
    """The tokens inserted after them."""
    text: str | None = None
    """The typed text; None if a candidate was chosen."""
    earlier: int = 0
    """Number of tokens at the end of the parent's prompt that earlier branches had added."""

    @property
    def written(self) -> int:
        """Number of tokens at the end of the prompt that belong to the text of the first run."""
        return self.earlier + self.kept + len(self.token_ids)


@dataclass(frozen=True, slots=True)
class PromptTurn:
    """A span of prompt tokens with one role, in a prompt made of messages."""

    role: str
    """One of TURN_ROLES: the speaker, or ``template`` for tokens that the chat template inserted."""
    start: int
    """Index of the first token in prompt_ids."""
    end: int
    """Index after the last token."""


@dataclass(frozen=True, slots=True)
class MediaInfo:
    """Metadata of a picture or sound input. The trace does not contain the input itself."""

    kind: str
    """One of MEDIA_KINDS."""
    sha256: str
    """Hash of the decoded pixels or samples, whatever the file format."""
    example: str | None = None
    """Name of the built-in example; None for a user's input."""
    width: int | None = None
    """Pixels after rotation and scaling; None for a sound."""
    height: int | None = None
    seconds: float | None = None
    """Duration of a sound; None for a picture."""
    rate: int | None = None
    """Sample rate of a sound as given, in Hz."""
    preview: str = ""
    """Preview of a picture: base64 of a JPEG with at most 160 pixels a side."""
    peaks: tuple[float, ...] = ()
    """Waveform of a sound: largest absolute sample of each of up to 100 equal parts, in [0, 1]."""


@dataclass(frozen=True)
class Trace:
    """A complete run, sufficient to draw, compare, replay and export it without a model."""

    strategy: str
    config: dict[str, Any]
    model: ModelInfo
    versions: dict[str, str]
    seed: int
    prompt: str | None
    prompt_ids: tuple[TokenId, ...]
    pieces: dict[int, str]
    """Token id -> its piece of text."""
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    timing: Timing = field(default_factory=Timing)
    metrics: dict[str, float] = field(default_factory=dict)
    assistant: ModelInfo | None = None
    eos_token_ids: tuple[int, ...] = ()
    special_token_ids: tuple[int, ...] = ()
    """Special tokens of the vocabulary, which are left out of texts; empty if unknown."""
    notes: tuple[str, ...] = ()
    """Sentences on adjusted values, such as a top_k above the vocabulary size."""
    parent: Parent | None = None
    """The branch point if this run continues another one, else None."""
    messages: tuple[dict[str, Any], ...] | None = None
    """The conversation, each message with role and content; ``prompt`` is then None."""
    template: dict[str, Any] | None = None
    """Further arguments of apply_chat_template, such as add_generation_prompt."""
    prompt_turns: tuple[PromptTurn, ...] = ()
    """Spans of a prompt made of messages, by role, without gaps."""
    literal_tokens: int = 0
    """Number of special tokens that the prompt or the messages spell and that were encoded as text,
    so ``tokenizer(prompt)`` or apply_chat_template alone gives other ids. 0 if they were parsed."""
    method: MethodInfo | None = None
    """The custom generation method; None for a built-in strategy."""
    emitted: tuple[tuple[EmittedToken, ...], ...] = ()
    """Statistics of every output's tokens for a custom method; empty if they were not computed."""
    grammar: tuple[GrammarText, ...] = ()
    """Every output under the grammar of structured_outputs; empty without one."""
    thinking: Thinking | None = None
    """Its thinking sections; None where no text has one and no budget is set."""
    media: tuple[MediaInfo, ...] = ()
    """Picture and sound inputs, at most one of each."""
    served: ServedInfo | None = None
    """The server that decoded the run; None for a run of this program."""
    speech: dict[str, Any] | None = None
    """Speech settings, as in Whisper's generate(): language, task, return_timestamps."""

    @property
    def is_on_server(self) -> bool:
        """Whether a server computed the model, so that it cannot be loaded here by its name."""
        return self.served is not None or bool(self.model.host)

    def steps_of(self, sequence: int = 0) -> tuple[Step, ...]:
        """Return the steps of one output, in order."""
        return tuple(step for step in self.steps if step.sequence == sequence)

    def details(self, kind: type[D]) -> list[tuple[Step, D]]:
        """Return (step, detail) of every step whose detail has this type."""
        return steps_with_detail(self.steps, kind)


def check_step_index(steps: Sized, index: object) -> int:
    """Return the index of a step as an int.

    Raises:
        ParameterError: there is no such step.
    """
    # bool is a subclass of int.
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(steps):
        step_range = Message("the run has steps 0 to {count}", count=len(steps) - 1)
        raise ParameterError("step", index, step_range)
    return index


def chosen_emit_index(step: Step) -> int:
    """Return the ``step.emit`` index of the token chosen from ``step.candidates``; -1 if empty.

    It is the last token, but the first for a custom method: a hook sees the distribution from which
    the text continued, before further tokens were added.
    """
    # A round of drafting records the candidates of its last token only.
    return 0 if isinstance(step.detail, ForwardDetail) and step.emit else len(step.emit) - 1


def chosen_token_id(step: Step) -> TokenId | None:
    """Return the token chosen from ``step.candidates``, or None if the step emitted none."""
    return step.emit[chosen_emit_index(step)] if step.emit else None


def steps_with_detail(steps: Iterable[Step], kind: type[D]) -> list[tuple[Step, D]]:
    """Return (step, detail) of those steps whose detail has this type."""
    return [(step, step.detail) for step in steps if isinstance(step.detail, kind)]


def replay_ids(steps: tuple[Step, ...]) -> list[int]:
    """Return the output ids: apply ``output[:keep] + emit`` over the steps of one sequence."""
    output: list[int] = []
    for step in steps:
        output[step.keep :] = step.emit
    return output
