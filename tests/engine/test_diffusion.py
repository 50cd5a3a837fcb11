"""Masked diffusion: every step is recorded, and the text follows from the record, the seed and the rule."""

from __future__ import annotations

import itertools
import json

import pytest
import torch

from engine.cli.main import main
from engine.errors import ParameterError, TraceError
from engine.models.diffusion_model import load_diffusion_model
from engine.run.diffusion import fill_text
from engine.trace import diffusion
from engine.trace.value_types import SECONDS, is_equal_except
from training import masked_diffusion

PROMPT = "Once upon a time, there was a little girl named Lily. She"


def fill(prompt=PROMPT, seed=0, **params):
    *steps, trace = fill_text(prompt, {"max_new_tokens": 12, "steps": 6, **params}, seed)
    assert list(trace.steps) == steps
    return trace


def test_the_model_sees_a_text_as_it_was_trained():
    loaded = load_diffusion_model()
    ids = torch.tensor([5, 9, loaded.mask_id, 7, loaded.mask_id, 300])
    expected = masked_diffusion.logits_of(loaded.model, ids[None])[0]
    assert torch.allclose(loaded.logits(ids), expected, atol=1e-4)
    assert loaded.mask_id == masked_diffusion.MASK


@pytest.mark.parametrize("steps", [3, 12])
def test_the_most_certain_places_are_written_as_in_training(steps):
    trace, loaded = fill(steps=steps), load_diffusion_model()
    prompt = torch.tensor([loaded.tokenizer(PROMPT, add_special_tokens=False)["input_ids"]])
    expected = masked_diffusion.write(loaded.model, prompt, 12, steps)[0]
    assert trace.ids_after(steps) == expected.tolist()
    assert len(trace.steps) == steps


@pytest.mark.parametrize("remasking", ["low_confidence", "random", "entropy_bound"])
@pytest.mark.parametrize("block_length", [0, 5])
def test_every_place_is_written_once_and_the_record_gives_the_text(remasking, block_length):
    trace = fill(remasking=remasking, block_length=block_length, temperature=0.8)
    written = [guess.position for step in trace.steps for guess in step.committed]
    hidden = [place for place, one in enumerate(trace.given_ids) if one is None]
    assert sorted(written) == hidden
    assert all(step.committed for step in trace.steps)
    assert len(trace.steps) <= 6
    ids = trace.ids_after(len(trace.steps))
    assert load_diffusion_model().tokenizer.decode(ids) == trace.text
    assert trace.text.startswith(PROMPT)
    blocks = {place: number // (block_length or 12) for number, place in enumerate(hidden)}
    assert [blocks[place] for place in written] == sorted(blocks.values())


def test_a_seed_gives_one_text_and_another_seed_another():
    settings = {"temperature": 1.0, "remasking": "random"}
    one, again, other = (fill(seed=seed, **settings) for seed in (3, 3, 4))
    assert is_equal_except(one, again, SECONDS)
    assert one.text != other.text


def test_places_in_the_middle_are_filled_and_the_words_around_them_stay():
    trace = fill("The girl was very {2} and cried. {3} Then she smiled.", steps=5)
    assert trace.text.startswith("The girl was very")
    assert " and cried." in trace.text
    assert trace.text.endswith(" Then she smiled.")
    assert sum(one is None for one in trace.given_ids) == 5


def test_a_step_leaves_no_more_open_than_the_entropy_bound():
    trace = fill(remasking="entropy_bound", entropy_bound=1.0, steps=12)
    for step in trace.steps[:-1]:
        entropies = sorted(guess.entropy for guess in step.committed)
        assert sum(entropies[:-1]) <= 1.0 + 1e-5
        others = [guess.entropy for guess in step.guesses if not guess.committed]
        assert min(others) >= entropies[-1]
    strict = fill(remasking="entropy_bound", entropy_bound=0.0, steps=12)
    assert len(strict.steps) > len(trace.steps)


def test_random_order_writes_less_certain_tokens():
    def mean(trace):
        written = [guess.probability for step in trace.steps for guess in step.committed]
        return sum(written) / len(written)

    assert mean(fill(remasking="random")) < mean(fill())


def test_guesses_that_change_are_counted_until_they_are_written():
    trace = fill(steps=12)
    counted = trace.revisions()
    assert set(counted) == {place for place, one in enumerate(trace.given_ids) if one is None}
    place = max(counted, key=counted.get)
    seen = [g.token_id for step in trace.steps for g in step.guesses if g.position == place]
    assert counted[place] == sum(a != b for a, b in itertools.pairwise(seen)) > 0


@pytest.mark.parametrize("block_length", [1, 4, 7, 9])
def test_no_more_passes_are_made_than_steps(block_length):
    blocks = -(-20 // block_length)
    for steps in range(blocks, 21):
        trace = fill(max_new_tokens=20, steps=steps, block_length=block_length)
        assert blocks <= len(trace.steps) <= steps


def test_the_command_prints_every_step_and_a_file_replays_it(tmp_path, capsys):
    file = tmp_path / "filled.json"
    words = ["fill", "--prompt", "The dog {4} home.", "--set", "steps=2", "--seed", "5"]
    assert main([*words, "--trace", str(file)]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) == 3
    assert main(["fill", "--replay", str(file)]) == 0
    assert capsys.readouterr().out == said
    assert diffusion.dumps(diffusion.load(file)) == file.read_text()


@pytest.mark.parametrize(
    ("prompt", "params", "said"),
    [
        ("{0}", {}, "it must hide 1 to 256 tokens"),
        ("{400}", {}, "it must hide 1 to 256 tokens"),
        (PROMPT, {"steps": 0}, "a whole number from 1"),
        (
            PROMPT,
            {"steps": 3, "block_length": 10},
            "it must be at least 4, one for every block of 10",
        ),
        (PROMPT, {"remasking": "none"}, "one of low_confidence, random, entropy_bound"),
        (PROMPT, {"top_k": 3}, "no such parameter"),
    ],
)
def test_what_is_not_allowed_is_refused_in_one_sentence(prompt, params, said):
    with pytest.raises(ParameterError, match=said):
        list(fill_text(prompt, params))


def test_a_damaged_record_is_refused_with_its_place():
    good = json.loads(diffusion.dumps(fill()))
    for change in (
        {"schema": "other"},
        {"pieces": {}},
        {"given_ids": [0] * len(good["given_ids"])},
        {"steps": good["steps"] + good["steps"]},
        {"seed": "x"},
    ):
        with pytest.raises(TraceError):
            diffusion.loads(json.dumps(good | change))
