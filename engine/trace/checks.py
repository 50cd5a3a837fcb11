"""Validation of a trace file; every error names the place in the file."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping

from engine.errors import TraceError
from engine.messages import Message
from engine.trace.beam_checks import check_beams
from engine.trace.chat_checks import check_chat
from engine.trace.detail_checks import check_detail, check_details
from engine.trace.grammar_checks import check_grammar
from engine.trace.json_scan import JsonLimitError, JsonLimits, JsonScanner
from engine.trace.media_checks import check_media
from engine.trace.method_checks import check_method
from engine.trace.records import FINISH_REASONS, Step, Trace, replay_ids
from engine.trace.served_checks import check_served
from engine.trace.thinking_checks import check_thinking
from engine.trace.value_types import JsonObject, JsonValue, is_unicode, iter_leaves

MAX_STEPS = 20_000
MAX_CANDIDATES = 200
_JSON_LIMITS = JsonLimits(depth=40, containers=250_000, values=2_500_000)
"""The longest run that the playground permits has a fifth of them."""
_CHUNK_BYTES = 1 << 18
_MAX_NUMBER = 2**64
_MAX_RUN_ID = 64
_CONFIG_LIMITS = {
    "length_penalty": 10,
    "num_beams": 1000,
    "max_new_tokens": 100_000,
    "z_threshold": 100,
}
_OPTIONAL_CONFIG_LIMITS = {"assistant_ensemble_weight": 1}
_TOLERANCE = 1e-3
_SEED_LIMIT = 2**63
_REPLACEMENT_CHARACTER = "\ufffd"
_BYTE_PIECES = re.compile("(?:<0x[0-9A-F]{2}>)+")


def read_json_strict(data: bytes, max_bytes: int) -> JsonValue:
    """Parse JSON or gzipped JSON more strictly than the standard parser.

    Args:
        data: content of the file.
        max_bytes: limit of the decompressed text.

    Raises:
        TraceError: the text is too large, not UTF-8, nested too deeply, has too many values,
            duplicate keys, NaN, Infinity or bad syntax.
    """
    return parse_json_strict(decode_text(data, max_bytes))


def parse_json_strict(text: str) -> JsonValue:
    """Parse a JSON text whose size and number of values were checked.

    Raises:
        TraceError: it has duplicate keys, NaN, Infinity or bad syntax.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_reject_duplicate_keys,
            parse_constant=_reject_constant,
            parse_float=_parse_finite_float,
        )
    except json.JSONDecodeError as error:
        raise TraceError(
            "The file is not valid JSON: {why} at line {line}, column {column}.",
            why=error.msg,
            line=error.lineno,
            column=error.colno,
        ) from None
    except (ValueError, RecursionError):  # Python limits the digits of an int
        raise TraceError("The file is not valid JSON: a number has too many digits.") from None


def decode_text(data: bytes, max_bytes: int) -> str:
    """Return the text of a file, decompressed if it is gzip, once its JSON is known to be bounded.

    Raises:
        TraceError: it is empty, too large, not UTF-8, nested too deeply or has too many values.
    """
    # Counted while it is decompressed and before it is parsed: a bomb is read no further than the
    # first limit that it exceeds.
    scanner, size = JsonScanner(_JSON_LIMITS), 0
    chunks: list[bytes] = []
    try:
        for chunk in _read_chunks(data):
            # Added before the chunk is stored, so at most one chunk beyond the limit is ever in memory.
            size += len(chunk)
            if size > max_bytes:
                raise TraceError("The file is larger than {n} bytes.", n=max_bytes)
            scanner.feed(chunk)
            chunks.append(chunk)
    except (OSError, EOFError, zlib.error):
        raise TraceError("The file is not valid gzip.") from None
    except JsonLimitError as error:
        raise TraceError(error.to_message(Message("The file"))) from None
    data = b"".join(chunks)
    if not data.strip():
        raise TraceError("The file is empty.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TraceError("The file is not UTF-8 text (byte {n}).", n=error.start) from None


def _read_chunks(data: bytes) -> Iterator[bytes]:
    """Yield the content of a file in chunks, decompressed if it is gzip."""
    zipped = data[:2] == b"\x1f\x8b"
    with gzip.GzipFile(fileobj=io.BytesIO(data)) if zipped else io.BytesIO(data) as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def _reject_duplicate_keys(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    # json.loads would silently keep the last of equal keys.
    result = dict(pairs)
    if len(result) != len(pairs):
        names: set[str] = set()
        double = next(key for key, _ in pairs if key in names or names.add(key))  # type: ignore[func-returns-value]
        raise TraceError("The key {key} occurs twice in one object.", key=repr(double[:40]))
    return result


def _reject_constant(name: str) -> None:
    raise TraceError("The file holds {name}, which is not a number in JSON.", name=name)


def _parse_finite_float(text: str) -> float:
    # "1e999" becomes inf here, which parse_constant never sees.
    value = float(text)
    if not math.isfinite(value):
        raise TraceError("The number {n} is not finite.", n=text[:20])
    return value


def check_step_count(steps: JsonValue) -> None:
    """Check the number of steps before they are read.

    Raises:
        TraceError: there are more than MAX_STEPS.
    """
    if isinstance(steps, list) and len(steps) > MAX_STEPS:
        raise TraceError(
            "The trace has {n} steps; at most {most} can be shown.", n=len(steps), most=MAX_STEPS
        )


def check_trace(trace: Trace) -> None:
    """Check what types cannot express: order, probabilities, ids, and the replay of outputs.

    Raises:
        TraceError: a check fails; the message names the step or field.
    """
    _check_config(trace.config)
    _check_header(trace)
    _check_ids("prompt_ids", trace.prompt_ids, trace)
    _check_parent(trace)
    check_chat(trace)
    check_media(trace)
    lengths: dict[int, int] = {}
    for index, step in enumerate(trace.steps):
        _check_step(index, step, trace, lengths)
    for number, output in enumerate(trace.outputs):
        if output.finish_reason not in FINISH_REASONS:
            raise TraceError(
                "outputs[{n}].finish_reason must be one of {reasons}.",
                n=number,
                reasons=", ".join(FINISH_REASONS),
            )
        _check_ids(f"outputs[{number}].token_ids", output.token_ids, trace)
        # Further beams of a search have no steps of their own; check_beams finds them in the tree.
        steps = trace.steps_of(number)
        if steps and replay_ids(steps) != list(output.token_ids):
            raise TraceError("outputs[{n}] is not what its steps replay to.", n=number)
        if not _is_text_consistent(output.text, output.token_ids, trace.pieces):
            raise TraceError("outputs[{n}].text is not the text of its tokens.", n=number)
    check_method(trace)
    check_grammar(trace)
    check_thinking(trace)
    check_served(trace)
    check_details(trace)
    check_beams(trace)


def _check_header(trace: Trace) -> None:
    if not 0 <= trace.seed < _SEED_LIMIT:
        raise TraceError(
            "trace.seed = {seed} is not allowed: write 0 to {most}.",
            seed=trace.seed,
            most=_SEED_LIMIT - 1,
        )
    for name in ("model", "assistant"):
        model = getattr(trace, name)
        if model is not None and (model.vocab_size < 0 or model.layers < 0):
            raise TraceError("trace.{name} has a negative vocab_size or layers.", name=name)


def _is_text_consistent(text: str, ids: Iterable[int], pieces: Mapping[int, str]) -> bool:
    """Return True if the text is a subsequence of the pieces, ignoring white space.

    Tokenizers treat white space differently, and special tokens may be missing from the text. A
    character that is split across tokens has no piece, so texts with U+FFFD pass.
    """
    whole = "".join(_BYTE_PIECES.sub(_decode_byte_pieces, "".join(pieces[i] for i in ids)).split())
    if _REPLACEMENT_CHARACTER in whole or _REPLACEMENT_CHARACTER in text:
        return True
    # ``in`` consumes the iterator, which makes this a subsequence test.
    there = iter(whole)
    return all(character in there for character in "".join(text.split()))


def _decode_byte_pieces(found: re.Match[str]) -> str:
    """Decode a run of byte pieces such as ``<0xE2>`` as UTF-8."""
    return bytes.fromhex(found[0].replace("<0x", "").replace(">", "")).decode(errors="replace")


def _check_parent(trace: Trace) -> None:
    """Check that the prompt of a branch ends with the inserted tokens."""
    parent = trace.parent
    if parent is None:
        return
    before = len(trace.prompt_ids) - len(parent.token_ids)
    # At least one token must be left that no branch added: the prompt of the first run.
    if parent.earlier < 0 or parent.earlier + parent.kept >= before:
        raise TraceError("trace.parent names a place that cannot be.")
    if parent.step < 0 or not 0 <= parent.kept < before or len(parent.run_id) > _MAX_RUN_ID:
        raise TraceError("trace.parent names a place that cannot be.")
    if not parent.token_ids or trace.prompt_ids[before:] != parent.token_ids:
        raise TraceError("trace.parent: the prompt does not end with its token_ids.")


def _check_config(config: Mapping[str, object]) -> None:
    """Check the settings used in computations, and that all numbers are finite and bounded."""
    for name, largest in (_CONFIG_LIMITS | _OPTIONAL_CONFIG_LIMITS).items():
        value = config.get(name, 0)
        if value is None and name in _OPTIONAL_CONFIG_LIMITS:
            continue
        # true and false are ints in Python.
        if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > largest:
            raise TraceError(
                "trace.config.{name} is no number from {low} to {high}.",
                name=name,
                low=-largest,
                high=largest,
            )
    leaves = list(iter_leaves(config))
    numbers = [leaf for leaf in leaves if isinstance(leaf, (int, float))]
    if not all(abs(n) <= _MAX_NUMBER for n in numbers):
        raise TraceError("trace.config has a number that is not finite or too large.")
    if not all(is_unicode(leaf) for leaf in leaves if isinstance(leaf, str)):
        raise TraceError("trace.config has half of a character (a lone surrogate).")


def _check_step(index: int, step: Step, trace: Trace, lengths: dict[int, int]) -> None:
    where = Message("Step {step}", step=index)
    if step.index != index:
        raise TraceError(
            "{where} carries the index {index}; steps must count 0, 1, 2, ….",
            where=where,
            index=step.index,
        )
    length = lengths.get(step.sequence, 0)
    if step.sequence < 0 or not 0 <= step.keep <= length:
        raise TraceError(
            "{where} keeps {n} tokens of {most}.", where=where, n=step.keep, most=length
        )
    lengths[step.sequence] = step.keep + len(step.emit)
    if len(step.candidates) > MAX_CANDIDATES:
        raise TraceError("{where} has more than {n} candidates.", where=where, n=MAX_CANDIDATES)
    for name in ("logsumexp", "entropy", "elapsed_s"):
        # None is unknown, which check_served allows for steps of a server only.
        if not math.isfinite(getattr(step, name) or 0.0):
            raise TraceError("{where} is not a finite number.", where=f"{where}.{name}")
    if (step.entropy or 0.0) < -_TOLERANCE or step.forward_passes < 0 or step.elapsed_s < 0:
        raise TraceError("{where} has a negative entropy, cost or time.", where=where)
    _check_ids(f"{where} emit", step.emit, trace)
    _check_ids(f"{where} candidates", (c.token_id for c in step.candidates), trace)
    _check_probabilities(where, step)
    check_detail(where, step.detail, trace.pieces)


def _check_probabilities(where: str, step: Step) -> None:
    if any(c.rank < 0 for c in step.candidates):
        raise TraceError("{where} has a candidate with a negative rank.", where=where)
    if len({c.token_id for c in step.candidates}) < len(step.candidates):
        raise TraceError("{where} has the same candidate twice.", where=where)
    for name in ("raw_logprob", "processed_logprob"):
        values = [getattr(c, name) for c in step.candidates]
        if any(value > _TOLERANCE for value in values):
            raise TraceError("{where} has a candidate with a probability above 1.", where=where)
        # Never renormalised over the recorded tokens, so the sum stays below 1.
        if sum(math.exp(value) for value in values) > 1 + _TOLERANCE:
            raise TraceError(
                "{where} has candidates whose probabilities sum to more than 1.", where=where
            )
    if any(c.raw_logprob == -math.inf and c.processed_logprob > -math.inf for c in step.candidates):
        raise TraceError(
            "{where} has a candidate that is impossible and yet possible.", where=where
        )
    for stage in step.stages:
        if not (
            0 <= stage.kept_mass <= 1 + _TOLERANCE
            and stage.kept >= 0
            and stage.entropy >= -_TOLERANCE
        ):
            raise TraceError(
                "{where} has a stage {name} with impossible numbers.",
                where=where,
                name=repr(stage.name[:40]),
            )


def _check_ids(where: str, ids: Iterable[int], trace: Trace) -> None:
    for token_id in ids:
        if token_id not in trace.pieces:
            raise TraceError(
                "{where}: token id {id} has no entry in pieces.", where=where, id=token_id
            )
