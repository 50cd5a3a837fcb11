"""The streamed script prints the run's text piece by piece, or a sentence says why there is none."""

from __future__ import annotations

import contextlib

import pytest

from engine import DecodeRequest
from engine.errors import ExportError
from engine.export.files import STREAM, export_files, stream_files
from engine.export.verify import verify_export
from engine.run.decoding import decode_to_trace


def run_of(strategy="sampling", prompt="Once upon a time", **params):
    params = {"max_new_tokens": 12, **params}
    return decode_to_trace(DecodeRequest(strategy, prompt=prompt, params=params, seed=3))


class Pieces(list):
    """A file that keeps what is written to it, piece by piece."""

    def write(self, text):
        self.append(text)

    def flush(self):
        """Do nothing: each piece is there already."""


@pytest.mark.parametrize(
    ("strategy", "params"), [("sampling", {"top_k": 20}), ("prompt_lookup", {})], ids=str
)
def test_it_prints_the_runs_text_while_it_is_written(strategy, params):
    trace, pieces = run_of(strategy, **params), Pieces()
    [(name, code)] = stream_files(trace).items()
    assert name == STREAM
    with contextlib.redirect_stdout(pieces):
        exec(code, {})
    assert "".join(pieces).strip() == trace.outputs[0].text.strip()
    assert len([piece for piece in pieces if piece.strip()]) > 1


@pytest.mark.parametrize(
    ("strategy", "fields", "said"),
    [
        ("beam_search", {}, "several sequences|separate decoding loop"),
        ("sampling", {"num_return_sequences": 2}, "several sequences"),
        ("contrastive_search", {}, "separate decoding loop"),
        ("sampling", {"prompt": ""}, "begins with a text"),
    ],
    ids=str,
)
def test_what_cannot_be_streamed_says_why(strategy, fields, said):
    with pytest.raises(ExportError, match=said):
        stream_files(run_of(strategy, **fields))


@pytest.mark.nightly
def test_a_run_without_a_prompt_is_exported_from_its_begin_token():
    trace = run_of("greedy", prompt="")
    assert verify_export(trace).equal
    lines = export_files(trace)["run.py"].split("in_short():\n")[1].split("\n\n\n")[0]
    assert f"torch.tensor([{list(trace.prompt_ids)}])" in lines
