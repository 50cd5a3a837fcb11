"""The record of a run: what each step saw, decided and why. Plain values only, no tensors.

The output after a step is ``output[:step.keep] + step.emit``; replaying every step of a sequence
gives its final ids. Numbers are natural-log probabilities (nats) unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engine.trace.details import Detail, ForwardDetail
from engine.trace.values import LogProb, Probability, Seconds, TokenId

D = TypeVar("D", bound=Detail)
SCHEMA = "decoding-trace/1"
IN_COLUMNS = "decoding-trace/2"
"""The same, with the records of every step in columns; see ``trace.columns``."""
TEMPLATE = "template"
ROLES = ("system", "user", "assistant", "tool")
TURNS = (*ROLES, TEMPLATE)
MEDIA_KINDS = ("image", "audio")
METHOD_SOURCES = ("shipped", "hub", "folder", "function")
FINISH_REASONS = ("eos", "length", "stop", "cancelled", "error")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One token that was considered in a step."""

    token_id: TokenId
    raw_logprob: LogProb
    """The model's own log-probability over the whole vocabulary."""
    processed_logprob: LogProb
    """After every processor, normalised over what is left; -inf when removed."""
    rank: int
    """Place in the model's own distribution, 0 is the most probable."""
    removed_by: str | None = None
    """Name of the processor that removed it, None when it was kept."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The distribution after one logits processor."""

    name: str
    kept: int
    """Tokens left with a non-zero probability."""
    kept_mass: Probability
    """Probability those tokens had before this processor, in [0, 1]."""
    entropy: float
    """Entropy in nats of the distribution after this processor."""


@dataclass(frozen=True, slots=True)
class Step:
    """One decision of a decode loop."""

    index: int
    keep: int
    emit: tuple[TokenId, ...]
    candidates: tuple[Candidate, ...] = ()
    stages: tuple[Stage, ...] = ()
    detail: Detail | None = None
    logsumexp: float = 0.0
    """log(sum(exp(raw logits))) of the position that was decided."""
    entropy: float = 0.0
    """Entropy in nats of the model's own distribution."""
    forward_passes: int = 1
    """Forward passes of the target model this step paid for."""
    elapsed_s: Seconds = 0.0
    """Seconds since the run started, when this step was decided."""
    sequence: int = 0
    """Which output this step writes (several when num_return_sequences > 1)."""


@dataclass(frozen=True, slots=True)
class Output:
    """One returned sequence: new tokens only, end-of-sequence included, padding not."""

    token_ids: tuple[TokenId, ...]
    text: str
    finish_reason: str
    score: float | None = None
    """The strategy's own ranking score (beam search: sum_logprobs / length**length_penalty)."""


@dataclass(frozen=True, slots=True)
class EmittedToken:
    """What the model says of one token of a finished text, read from outside in one pass over it."""

    logprob: LogProb
    """Over the whole vocabulary, before any processor."""
    rank: int
    """Place in the model's distribution, 0 is the most probable."""
    entropy: float
    """Nats of that distribution."""
    top: tuple[tuple[TokenId, Probability], ...]
    """Its most probable tokens: (token_id, probability)."""


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """Which custom generation method made a run."""

    name: str
    """As the request names it."""
    source: str
    """One of METHOD_SOURCES."""
    sha256: str | None = None
    """Of its code; None for a function that was given as an object."""
    revision: str | None = None
    """Commit of a repository of the hub."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a converted model agrees with the one that it was made of, on one fixed text, token by token."""

    tokens: int
    """Of the text, as the model's tokenizer cuts it."""
    same_top: float
    """Share of the places at which both hold the same token for the most probable one."""
    kl: float
    """Mean Kullback-Leibler divergence of the converted model from its origin, in nats."""
    perplexity: float
    """Of the text, by the converted model."""
    torch_perplexity: float
    """Of the text, by its origin."""


@dataclass(frozen=True, slots=True)
class HeldWeights:
    """How weights were held beyond their dtype, in transformers' names, and where the layers were."""

    quantization: str | None = None
    """8bit (LLM.int8) or 4bit (nf4), None for none."""
    bnb_4bit_use_double_quant: bool = False
    bnb_4bit_compute_dtype: str | None = None
    device_map: str | None = None
    """auto where the layers were spread over devices, None where all were on one."""
    max_memory: dict[str, str] | None = None
    """Device -> the most that could be filled there, such as 200MB."""
    layers_on: dict[str, int] = field(default_factory=dict)
    """Device -> number of layers: cpu, cuda:0, disk."""
    backend: str = "torch"
    """What computed: torch, openvino, or openvino-int8, whose matrices have 8 bits a value."""
    agreement: Agreement | None = None
    """How openvino-int8 agrees with the model in float32, measured when it was converted."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Which weights produced a run."""

    id: str
    revision: str | None = None
    dtype: str = "float32"
    device: str = "cpu"
    vocab_size: int = 0
    layers: int = 0
    is_encoder_decoder: bool = False
    weights: HeldWeights | None = None
    """How they were held, None where they were whole, on one device, at ``dtype``."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of a run; decoding begins when the model is loaded and it is the run's turn."""

    total_s: Seconds = 0.0
    """From where decoding began to the last decision."""
    first_token_s: Seconds | None = None
    """From where decoding began to the first decision; earlier files count loading and waiting, too."""
    load_s: Seconds = 0.0
    queue_s: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class Parent:
    """Where a branch left the run it continues."""

    run_id: str
    """Name of that run in the session that made it, "" when it had none."""
    step: int
    """Index of the step of that run at which the branch begins."""
    kept: int
    """New tokens of that run that were kept; the branch's prompt ends with them and token_ids."""
    token_ids: tuple[TokenId, ...]
    """What was put after them."""
    text: str | None = None
    """As it was typed; None when a candidate was chosen."""


@dataclass(frozen=True, slots=True)
class PromptTurn:
    """A run of tokens of a prompt that was made of messages."""

    role: str
    """One of TURNS: whose words they are, or that the chat template put them there."""
    start: int
    """Index of its first token in prompt_ids."""
    end: int
    """Index after its last one."""


@dataclass(frozen=True, slots=True)
class MediaInfo:
    """A picture or a sound that a run was given, beside its text; the thing itself is in no trace."""

    kind: str
    """One of MEDIA_KINDS."""
    sha256: str
    """Of its pixels or samples, see ``engine.media``; the same picture has the same, whatever file it came in."""
    example: str | None = None
    """Name of the example that it is, None for one that somebody gave."""
    width: int | None = None
    """Pixels, upright and as it was kept; None for a sound."""
    height: int | None = None
    seconds: float | None = None
    """How long a sound is, None for a picture."""
    rate: int | None = None
    """Of a sound as it was given, in Hz."""
    preview: str = ""
    """Of a picture: base64 of a JPEG whose longest side is at most 160 pixels."""
    peaks: tuple[float, ...] = ()
    """Of a sound: the largest absolute sample of each of up to 100 equal parts, in [0, 1]."""


@dataclass(frozen=True)
class Trace:
    """A whole run, enough to draw, compare, replay and export it without a model."""

    strategy: str
    config: dict[str, Any]
    model: ModelInfo
    versions: dict[str, str]
    seed: int
    prompt: str | None
    prompt_ids: tuple[TokenId, ...]
    pieces: dict[int, str]
    """Token id -> the piece of text to show for it."""
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    timing: Timing = field(default_factory=Timing)
    metrics: dict[str, float] = field(default_factory=dict)
    assistant: ModelInfo | None = None
    eos_token_ids: tuple[int, ...] = ()
    special_token_ids: tuple[int, ...] = ()
    """The tokens that stand in no text, of the whole vocabulary; empty also in files that do not say."""
    notes: tuple[str, ...] = ()
    """Sentences about adjusted values, such as a top_k above the vocabulary size."""
    parent: Parent | None = None
    """The run this one continues, None when its prompt was written."""
    messages: tuple[dict[str, Any], ...] | None = None
    """The conversation whose next turn this is, each message with role and content; prompt is None then."""
    template: dict[str, Any] | None = None
    """The other arguments of apply_chat_template, add_generation_prompt or continue_final_message among them."""
    prompt_turns: tuple[PromptTurn, ...] = ()
    """The tokens of a prompt that was made of messages, without gaps, by whose they are."""
    literal_tokens: int = 0
    """Control tokens that the messages spell; they stayed text, so apply_chat_template alone gives other ids."""

    method: MethodInfo | None = None
    """The custom generation method that decided, None for a strategy of the playground's own."""
    emitted: tuple[tuple[EmittedToken, ...], ...] = ()
    """Of every output of a custom method, what one pass over the text says of its tokens; empty where none was made."""
    media: tuple[MediaInfo, ...] = ()
    """The picture and the sound that the model was given, at most one of each."""
    speech: dict[str, Any] | None = None
    """What a speech model was told, in the names of Whisper's generate(): language, task, return_timestamps."""

    def steps_of(self, sequence: int = 0) -> tuple[Step, ...]:
        """Return the steps that wrote one output, in order."""
        return tuple(step for step in self.steps if step.sequence == sequence)

    def details(self, kind: type[D]) -> list[tuple[Step, D]]:
        """Return every step whose detail is of this kind, with that detail."""
        return details(self.steps, kind)


def own_place(step: Step) -> int:
    """Return which of the tokens that a step wrote its candidates are of, from 0; -1 where it wrote none.

    The last of them; where the step was seen from outside the first, by which the text went on.
    """
    return 0 if isinstance(step.detail, ForwardDetail) and step.emit else len(step.emit) - 1


def own_token(step: Step) -> TokenId | None:
    """Return the token that a step's candidates are of, None where it wrote none."""
    return step.emit[own_place(step)] if step.emit else None


def details(steps: Iterable[Step], kind: type[D]) -> list[tuple[Step, D]]:
    """Return those of the steps whose detail is of this kind, with that detail."""
    return [(step, step.detail) for step in steps if isinstance(step.detail, kind)]


def replay_ids(steps: tuple[Step, ...]) -> list[int]:
    """Apply ``output[:keep] + emit`` over the steps of one sequence."""
    output: list[int] = []
    for step in steps:
        output[step.keep :] = step.emit
    return output
