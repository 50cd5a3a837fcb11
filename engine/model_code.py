"""One sentence for every exception that a model's own code, or that of transformers, raises.

``ModelCall`` surrounds a single call into that code, ``ModelWork`` everything that a run or a
question does with a model. Both leave errors of the engine's own code as they are: those are
internal errors, and must stay visible as such.
"""

from __future__ import annotations

import logging
import uuid
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any, Literal

from engine.errors import Cancelled, EngineError, ModelError
from engine.messages import Message

_LOG = logging.getLogger("engine")
_OWN_PACKAGES = frozenset(("engine", "playground", "visualizers"))
_MODEL_PACKAGES = frozenset(
    (
        "transformers",
        "accelerate",
        "bitsandbytes",
        "huggingface_hub",
        "jinja2",
        "openvino",
        "peft",
        "safetensors",
        "sentencepiece",
        "tiktoken",
        "tokenizers",
    )
)
"""Packages whose code belongs to a model. Others, such as torch, run on behalf of their caller."""
FORWARD_PASS = Message("the forward pass")
TOKENIZER = Message("the tokenizer")
LAYER_READING = Message("the reading of its layers")
PROPERTIES = Message("the reading of its properties")
GENERATE = Message("transformers' generate()")
STOPPING = Message("the stopping criteria")
PROCESSOR = Message("the preparation of the picture or sound")
_ITS_CODE = Message("its code")


class ModelCodeError(ModelError):
    """A model's code, or transformers', raised an exception.

    Args:
        kind: class name of the exception.
        reference: names the entry in the log.
        task: what was tried, as the subject of a sentence; "" if unknown.
        model: name of the model, "" if unknown.
        strategy: title of the strategy, "" if none or unknown.
    """

    def __init__(
        self, kind: str, reference: str, task: str = "", model: str = "", strategy: str = ""
    ) -> None:
        self.kind, self.reference = kind, reference
        self.task, self.model, self.strategy = task, model, strategy
        super().__init__(self._sentence())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by constructor arguments, so that the error can cross processes."""
        return ModelCodeError, (self.kind, self.reference, self.task, self.model, self.strategy)

    def add_context(self, task: str, model: str, strategy: str) -> None:
        """Name what is not named yet: callers further out know less of the call, but more of the run."""
        self.task, self.model = self.task or task, self.model or model
        self.strategy = self.strategy or strategy
        self.args = (self._sentence(),)

    def _sentence(self) -> Message:
        model = self.model or Message("The model")
        subject = (
            Message("{model} cannot do this with {strategy}", model=model, strategy=self.strategy)
            if self.strategy
            else Message("{model} cannot do this", model=model)
        )
        return Message(
            "{subject}: {task} ended in {kind}. The cause is in the model's code or in transformers; "
            "try other settings or another model (see {reference} in the log).",
            subject=subject,
            task=self.task or _ITS_CODE,
            kind=self.kind,
            reference=self.reference,
        )


class ModelWork(ContextDecorator):
    """A context, or decorator, in which a model's exceptions become ``ModelCodeError`` with the given names.

    Args:
        model: name of the model, "" if unknown.
        strategy: title of the strategy, "" if none or unknown.
        task: what is tried, unless a ``ModelCall`` within says it.
    """

    _is_call = False

    def __init__(self, model: str = "", strategy: str = "", task: str = "") -> None:
        self.model, self.strategy, self.task = model, strategy, task

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]:
        if isinstance(error, ModelCodeError):
            error.add_context(self.task, self.model, self.strategy)
        elif error is not None and _is_from_model(error, traceback, is_call=self._is_call):
            found = to_model_code_error(error)
            found.add_context(self.task, self.model, self.strategy)
            raise found from error
        return False


class ModelCall(ModelWork):
    """A context, or decorator, around a single call into a model's code or transformers.

    Errors raised by the surrounding or decorated function itself count, too: a model may return
    something of another form.

    Args:
        task: what is tried, as the subject of a sentence.
        model: name of the model, "" if unknown.
    """

    _is_call = True

    def __init__(self, task: str, model: str = "") -> None:
        super().__init__(model=model, task=task)


def find_model_code_error(error: BaseException) -> ModelCodeError | None:
    """Return the error of a model's code that no context has named, None for any other error."""
    if isinstance(error, ModelCodeError):
        return error
    if _is_from_model(error, error.__traceback__, is_call=False):
        return to_model_code_error(error)
    return None


def to_model_code_error(error: BaseException) -> ModelCodeError:
    """Log an exception of a model's code, and return the error that users get."""
    reference, kind = uuid.uuid4().hex[:8], type(error).__name__
    about = {"reference": reference, "error": kind}
    log_without_message(f"model code failed: {kind}, reference {reference}", error, about)
    return ModelCodeError(kind, reference)


def log_without_message(text: str, error: BaseException, about: dict[str, Any]) -> None:
    """Log an exception with its traceback but without its message, which may quote the prompt."""
    bare = RuntimeError(type(error).__name__)
    _LOG.error("%s", text, exc_info=(type(bare), bare, error.__traceback__), extra=about)


def is_failure(error: BaseException) -> bool:
    """Return whether code failed, and was not ended from outside as by KeyboardInterrupt."""
    # A panic of a tokenizer's Rust code is a BaseException.
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, on the CPU or on a GPU."""
    # By name: this module must not load torch.
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def _is_from_model(error: BaseException, traceback: TracebackType | None, *, is_call: bool) -> bool:
    """Return whether the innermost code that took part, of the engine's and a model's, is a model's.

    Args:
        error: the exception.
        traceback: of the exception.
        is_call: errors raised in the outermost function of the engine are the model's, too.
    """
    if not is_failure(error):
        return False
    if isinstance(error, EngineError | Cancelled) or is_out_of_memory(error):
        return False
    found, spared = is_call, is_call
    # From the outermost frame inwards, so that the last package that is known decides.
    while traceback is not None:
        package = str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in _MODEL_PACKAGES:
            found = True
        elif package in _OWN_PACKAGES:
            found, spared = spared, False
        traceback = traceback.tb_next
    return found
