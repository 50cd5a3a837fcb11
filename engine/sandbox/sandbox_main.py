"""Main program of a sandboxed process: confines itself, loads the model, runs one method.

``SandboxProcess`` starts it and talks to it over two pipes; the parent treats its messages as
untrusted data.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import os
import random
import select
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO

from engine.sandbox import confinement, wire

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel


def main(parent: int, channel: int) -> None:
    """Run one job and exit.

    Args:
        parent: process id of the parent.
        channel: file descriptor for outgoing messages.
    """
    confinement.exit_with_parent(parent)
    with os.fdopen(channel, "wb", buffering=0) as out:
        tell = partial(_send_message, out)
        setup = wire.read_message(sys.stdin.buffer)
        if setup is None:
            return
        readable = [Path(path) for path in (*setup["readable"], *list_package_paths())]
        # Before torch is imported: numpy starts threads, and Landlock covers only later ones.
        abi = confinement.restrict_files(readable, [Path(setup["own"])])
        host = _SandboxedModel(setup, abi)
        tell({"ready": host.ready})
        job = wire.read_message(sys.stdin.buffer)
        if job is not None:
            tell({"end": host.run_job(job, tell)})
    # Skips the method's threads and atexit functions.
    os._exit(0)


def list_package_paths() -> list[str]:
    """Return the import paths of this Python without the project folder, which may hold secrets."""
    project = Path(__file__).resolve().parents[2]
    found = {Path(p).resolve() for p in (*sys.path, sys.prefix, sys.base_prefix, sys.exec_prefix)}
    return sorted(str(path) for path in found - {project} if path.exists())


def _send_message(out: BinaryIO, message: dict[str, Any]) -> None:
    out.write(wire.pack_message(message))


class _SandboxedModel:
    """A model in a process that has given up all other access.

    Args:
        setup: model (a folder), weights, readable and own (folders), threads, memory_bytes, cpu_s,
            file_bytes.
        abi: Landlock ABI in force, the result of ``confinement.close_files``.
    """

    def __init__(self, setup: dict[str, Any], abi: int) -> None:
        _import_packages()
        import torch

        from engine.declare.weights import parse_weights
        from engine.models.loading import load

        torch.set_num_threads(setup["threads"])
        own, _ = parse_weights(setup["weights"], "", assistant=False)
        self.loaded = load(setup["model"], confinement.DEVICE, weights=own)
        # After the load, since the memory limit counts from the present address space.
        confinement.set_limits(setup["memory_bytes"], setup["cpu_s"], setup["file_bytes"])
        self.ready = {
            "barriers": confinement.restrict_calls(abi),
            "load_s": self.loaded.load_s,
            "vocab_size": self.loaded.vocab_size,
        }

    def run_job(self, job: dict[str, Any], tell: Any) -> dict[str, Any]:
        """Run a method and return its final message.

        Args:
            job: method (its folder), takes, ids, config, arguments, seed, top_candidates, and
                optionally stop_after, stop_strings, negative_prompt_ids and allowed (continuations
                as ids).
            tell: sends messages during the run.
        """
        from engine.sandbox.return_value import read_return_value
        from engine.trace.json_io import step_to_dict

        def report(step: dict[str, Any]) -> None:
            tell({"step": step})
            wait_while_paused(sys.stdin.buffer)

        knows = "on_step" in job["takes"]
        outside = _ignore_step if knows else lambda step: report(step_to_dict(step))
        own = {"on_step": lambda step: report(step_to_json(step))} if knows else {}
        watch = self._make_watch(job, outside)
        try:
            with watch.attach(self.loaded.model):
                returned = self._call_generate(job, watch, own)
        except BaseException as error:
            return {
                "error": _error_to_dict(error, Path(job["method"]).name),
                "passes": watch.passes,
            }
        told = read_return_value(returned, self.loaded.vocab_size)
        if told.get("sequences"):
            watch.close(told["sequences"][0])
        return {**told, "start": watch.start, "passes": watch.passes}

    def _make_watch(self, job: dict[str, Any], send: Any) -> Any:
        from engine.loops.recorder import Recorder
        from engine.loops.teacher_forced import decoder_prefix_ids
        from engine.sandbox.forward_watch import ForwardWatch

        loaded = self.loaded
        prompt = decoder_prefix_ids(loaded, job["ids"][0])
        ends = job["config"].get("eos_token_id") or ()
        return ForwardWatch(
            Recorder(job["top_candidates"]),
            prompt,
            loaded.is_encoder_decoder,
            send,
            [ends] if isinstance(ends, int) else ends,
        )

    def _call_generate(self, job: dict[str, Any], watch: Any, own: dict[str, Any]) -> Any:
        import numpy
        import torch
        from transformers import GenerationConfig

        model, device = self.loaded.model, self.loaded.device
        ids = torch.tensor(job["ids"], device=device)
        named: dict[str, Any] = {**job["arguments"], **own}
        if job.get("negative_prompt_ids"):
            negative = torch.tensor([job["negative_prompt_ids"]], device=device)
            named["negative_prompt_ids"] = negative.expand(len(ids), -1)
        if job.get("allowed"):
            named["prefix_allowed_tokens_fn"] = self._make_prefix_fn(job, ids.shape[1])
        named |= build_filter_argument(job, self.loaded)
        takes = job["takes"]
        # Only for methods that declare it: generate() refuses a streamer with beams.
        if "streamer" in takes:
            named["streamer"] = watch
        # generate() passes its first positional argument on as ``inputs``.
        name = "input_ids" if "input_ids" in takes and "inputs" not in takes else "inputs"
        random.seed(job["seed"])
        # numpy takes seeds of 32 bits only.
        numpy.random.seed(job["seed"] % 2**32)
        torch.manual_seed(job["seed"])
        # type(model).generate: a model folder may have replaced the instance's own generate.
        return type(model).generate(
            model,
            **{name: ids},
            attention_mask=torch.ones_like(ids),
            generation_config=GenerationConfig(**job["config"]),
            stopping_criteria=build_stopping_criteria(job, self.loaded, ids.shape[1]),
            custom_generate=job["method"],
            # This process is confined already.
            trust_remote_code=True,
            **named,
        )

    def _make_prefix_fn(self, job: dict[str, Any], length: int) -> Any:
        from engine.loops.prefix_constraint import make_prefix_allowed_tokens_fn

        start = 1 if self.loaded.is_encoder_decoder else length
        eos = tuple(job["config"]["eos_token_id"] or ())
        sequences = tuple(tuple(row) for row in job["allowed"])
        return make_prefix_allowed_tokens_fn(sequences, start, eos, self.loaded.vocab_size)


def wait_while_paused(orders: BinaryIO) -> None:
    """Wait between two steps if the parent has begun a pause, with this thread's clock, until it ends it.

    Args:
        orders: the pipe from the parent, which sends one message at the beginning and one at the end.
    """
    from engine.timing_noise import skip_time

    if not select.select([orders], [], [], 0)[0]:
        return
    began = time.perf_counter()
    for _ in range(2):
        wire.read_message(orders)
    skip_time(time.perf_counter() - began)


def _import_packages() -> None:
    """Import what every run needs.

    The garbage collector is off meanwhile: its passes over new modules take a fifth of the time and
    free hardly anything.
    """
    # Thousands of modules are imported, and collections meanwhile would find nothing to free.
    gc.disable()
    _patch_import_scan()
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: F401

    # Before the model is loaded, so that no cycle with weights is exempt from collection.
    gc.freeze()
    gc.enable()


def _patch_import_scan() -> None:
    """Let transformers scan the sources of its models (some 1,600 files) once instead of twice.

    It scans them for the package and again for ``transformers.models``, under another path.
    """
    import transformers
    from transformers.utils import import_utils

    scan = import_utils.create_import_structure_from_path
    folder = Path(transformers.__file__).parent / "models"
    own = str(folder / "__init__.py")
    import_utils.create_import_structure_from_path = lambda path: scan(
        folder if path == own else path
    )


def step_to_json(step: object) -> Any:
    """Return a step built by the method itself as a JSON object.

    Args:
        step: a dataclass with the fields of ``trace.records.Step`` (its class may be a copy), or a
            JSON object.
    """
    from engine.trace.details import DETAIL_TYPES

    kinds = {cls.__name__: kind for kind, cls in DETAIL_TYPES.items()}
    if dataclasses.is_dataclass(step):
        kind = kinds.get(type(step).__name__)
        fields = {f.name: step_to_json(getattr(step, f.name)) for f in dataclasses.fields(step)}
        return {"kind": kind, **fields} if kind else fields
    if isinstance(step, (list, tuple)):
        return [step_to_json(item) for item in step]
    if isinstance(step, dict):
        return {str(name): step_to_json(item) for name, item in step.items()}
    return None if isinstance(step, float) and not math.isfinite(step) else step


def _ignore_step(step: object) -> None:
    """Discard an observed step: the method reports its own."""
    del step


def build_filter_argument(job: dict[str, Any], loaded: LoadedModel) -> dict[str, Any]:
    """Return the argument of generate() with the filters that it does not build, or nothing."""
    from transformers import LogitsProcessorList

    from engine.grammar.compile import compile_grammar
    from engine.loops.thinking import make_thinking_processor
    from engine.models.structured_outputs import make_grammar_processor
    from engine.processors import FILTERS

    known = ((FILTERS[name].build, values) for name, *values in job.get("filters", ()))
    found = [build(*values) for build, values in known if build is not None]
    prompt, written = job["ids"][0], job.get("written", 0)
    thinking = make_thinking_processor(
        SimpleNamespace(**job.get("thinking", {})), loaded, prompt, written
    )
    if thinking is not None:
        found.insert(0, thinking)
    if job.get("structured_outputs"):
        ends, spec = job["config"]["eos_token_id"] or (), job["structured_outputs"]
        # Its caller has compiled it within limits, and the sandbox starts no processes.
        grammar = make_grammar_processor(spec, loaded, prompt, ends, written, compile_grammar)
        found.insert(0, grammar)
    return {"logits_processor": LogitsProcessorList(found)} if found else {}


def build_stopping_criteria(job: dict[str, Any], loaded: LoadedModel, length: int) -> Any:
    """Return the stopping criteria of a job: stop strings, and a maximum of new tokens."""
    from transformers import MaxLengthCriteria, StoppingCriteriaList, StopStringCriteria

    criteria = StoppingCriteriaList()
    if job.get("stop_strings"):
        assert loaded.tokenizer is not None  # fit_to_model refuses stop strings without one
        criteria.append(StopStringCriteria(loaded.tokenizer, job["stop_strings"]))
    if job.get("stop_after"):
        start = 1 if loaded.is_encoder_decoder else length
        criteria.append(MaxLengthCriteria(start + job["stop_after"]))
    return criteria


def _error_to_dict(error: BaseException, folder: str) -> dict[str, Any]:
    """Return an error's kind, text, and file and line in the method, as plain values."""
    frames = traceback.extract_tb(error.__traceback__)
    mark = f"{os.sep}{folder}{os.sep}"
    own = [
        f
        for f in frames
        if mark in f.filename or f"{os.sep}transformers_modules{os.sep}" in f.filename
    ]
    where = own[-1] if own else None
    if isinstance(error, SyntaxError) and error.filename:
        return {
            "kind": "SyntaxError",
            "text": error.msg,
            "file": Path(error.filename).name,
            "line": error.lineno,
        }
    return {
        "kind": type(error).__name__,
        "text": str(error)[:2000],
        "file": Path(where.filename).name if where else None,
        "line": where.lineno if where else None,
    }
