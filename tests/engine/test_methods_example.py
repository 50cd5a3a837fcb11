"""The example that transformers' documentation points to, from a folder that does what it does."""

from __future__ import annotations

import pytest

from engine.errors import MethodError, ParameterError
from engine.sandbox.arguments import check_arguments
from engine.sandbox.folder import read_method
from engine.sources.source import Source
from tests.helpers.method_processes import SharedProcess
from tests.helpers.methods import job, run_method, write_method
from tests.helpers.outside import outside, run_here

PROMPT = [5, 9, 20, 33]
MESSAGE = "✨ using a custom generation method ✨"
SOURCE = f'''from typing import Optional

import torch


def generate(model, input_ids, generation_config=None, left_padding: Optional[int] = None, **kwargs):
    print("{MESSAGE}")
    if left_padding is not None:
        if not isinstance(left_padding, int):
            raise TypeError(f"left_padding must be a whole number, but is {{left_padding}}")
        if left_padding < 0:
            raise ValueError(f"left_padding must not be negative, but is {{left_padding}}")
        pad = torch.full((input_ids.shape[0], left_padding), generation_config.pad_token_id)
        input_ids = torch.cat((pad, input_ids), dim=1)
    for _ in range(generation_config.max_new_tokens):
        next_tokens = model(input_ids).logits[:, -1, :].argmax(dim=-1)
        input_ids = torch.cat((input_ids, next_tokens[:, None]), dim=-1)
    return input_ids
'''


@pytest.fixture(scope="module")
def process():
    """One confined process with Storyteller in it for all runs of this file."""
    shared = SharedProcess(Source.parse("storyteller").folder())
    yield shared
    shared.end()


def test_it_is_read_with_its_argument_and_refuses_other_kinds(tmp_path):
    method = read_method(write_method(tmp_path / "example", SOURCE))
    [argument] = method.arguments
    assert (argument.name, argument.kind, argument.default, argument.required) == (
        "left_padding",
        "int",
        None,
        False,
    )
    for value in ("two", 2.5, True, [1]):
        with pytest.raises(ParameterError) as raised:
            check_arguments(method.arguments, {"left_padding": value})
        assert (
            str(raised.value)
            == f"left_padding = {value!r} is not allowed: it must be a whole number."
        )


@pytest.mark.nightly
@pytest.mark.parametrize("runner", [run_here, outside])
def test_it_makes_the_tokens_that_transformers_makes_and_its_message_is_kept(
    tmp_path, process, runner
):
    folder = write_method(tmp_path / "example", SOURCE)
    model = Source.parse("storyteller").folder()
    task = job([PROMPT], new=8, arguments={"left_padding": 2})
    run = {
        "method": str(folder),
        "prompts": [PROMPT],
        "config": task["config"],
        "name": "input_ids",
    }
    direct = runner(
        model,
        {"padded": run | {"arguments": {"left_padding": 2}}, "plain": run},
        tmp_path / "modules",
    )
    steps, outcome = run_method(folder, task, process)
    # Of a longer prompt than was given, transformers' rows begin with what was moved.
    assert direct["padded"]["rows"][0][2:] == list(outcome.sequences[0])
    assert direct["padded"]["rows"][0][:2] == PROMPT[2:]
    assert direct["padded"]["passes"] == outcome.passes == len(steps) == 8
    assert process.printed == MESSAGE + "\n"
    assert direct["plain"]["rows"][0] != list(outcome.sequences[0])


@pytest.mark.nightly
def test_its_own_refusal_is_one_sentence_with_its_line(tmp_path, process):
    folder = write_method(tmp_path / "example", SOURCE)
    with pytest.raises(MethodError) as raised:
        run_method(folder, job([PROMPT], arguments={"left_padding": -1}), process)
    line = SOURCE.splitlines().index(
        '            raise ValueError(f"left_padding must not be negative, but is {left_padding}")'
    )
    assert str(raised.value) == (
        f"custom_generate/generate.py, line {line + 1}: ValueError: left_padding must not be negative, but is -1."
    )
