"""What a token hung on: gradients against differences, leaving out against plain passes one by one."""

from __future__ import annotations

import dataclasses
import threading

import pytest
import torch

from engine.errors import Cancelled, ModelError
from engine.inspection.attribution import INPUT, OUTPUT, compute_gradient_times_input
from engine.inspection.leave_one_out import compute_leave_one_out
from engine.inspection.target_token import TargetToken
from engine.loops.teacher_forced import teacher_forced_inputs
from engine.models.loading import LoadedModel
from engine.settings import SETTINGS
from tests.helpers.looking import (
    DECIDED,
    NEW,
    PICTURE,
    READ,
    TEXT_MODELS,
    doubled,
    model_of,
    picture,
    plain,
)
from tests.helpers.models import fresh_model
from tests.helpers.sentences import clean
from tests.helpers.zoo import KIND_NAMES, zoo_model

CAPTION = TargetToken((1,), NEW[:2], NEW[2])

NO_GRADIENT = {"CpmAnt", "XLNet"}
"""Architectures whose embeddings do not stand one for each id, row by row."""


def by_kind(found):
    return {part.kind: part for part in found.parts}


def embedded(loaded):
    """Return the inputs of the pass over a text with embeddings in the place of ids, by kind."""
    inputs = teacher_forced_inputs(loaded, DECIDED.prompt_ids, [*DECIDED.before, DECIDED.token_id])
    names = {OUTPUT: "input_ids"}
    if loaded.is_encoder_decoder:
        names = {INPUT: "input_ids", OUTPUT: "decoder_input_ids"}
    table = loaded.model.get_input_embeddings()
    vectors = {kind: table(inputs.pop(name)).detach() for kind, name in names.items()}
    places = {kind: names[kind].replace("input_ids", "inputs_embeds") for kind in names}
    return inputs, vectors, places


# Llama's and T5's norms compute in single precision whatever comes in, which a tiny step would drown in.
@pytest.mark.parametrize(
    ("name", "step", "off"), [("gpt2", 1e-4, 1e-5), ("llama", 1e-2, 5e-3), ("t5", 1e-2, 5e-3)]
)
def test_a_gradient_is_what_a_small_change_makes(name, step, off):
    loaded = doubled(name)
    found = by_kind(compute_gradient_times_input(loaded, DECIDED))
    inputs, vectors, places = embedded(loaded)
    assert set(found) == set(vectors)
    for kind, own in vectors.items():
        for place in range(own.shape[1]):
            sides = []
            for sign in (1, -1):
                changed = own.clone()
                changed[:, place] *= 1 + sign * step
                given = {places[k]: v for k, v in {**vectors, kind: changed}.items()}
                sides.append(plain(loaded, DECIDED.token_id, **inputs, **given))
            slope = (sides[0] - sides[1]) / (2 * step)
            assert found[kind].values[place] == pytest.approx(slope, abs=off)


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2", "t5"])
def test_a_gradient_is_what_autograd_makes_of_embeddings_that_are_handed_in(name):
    loaded = model_of(name)
    found = by_kind(compute_gradient_times_input(loaded, DECIDED))
    inputs, vectors, places = embedded(loaded)
    leaves = {kind: vector.clone().requires_grad_() for kind, vector in vectors.items()}
    given = {places[kind]: leaf for kind, leaf in leaves.items()}
    logits = loaded.model(**inputs, **given, use_cache=False).logits[0, -1]
    logprob = torch.log_softmax(logits, -1)[DECIDED.token_id]
    for kind, grad in zip(leaves, torch.autograd.grad(logprob, list(leaves.values())), strict=True):
        own = (grad * leaves[kind])[0].sum(-1).tolist()
        assert list(found[kind].values) == pytest.approx(own, abs=1e-4)


def test_a_gradient_of_a_picture_is_its_patches_small_change():
    loaded = doubled("captioner")
    pixels = picture()["pixel_values"].double()
    found = by_kind(compute_gradient_times_input(loaded, CAPTION, {"pixel_values": pixels}))
    assert found[INPUT].values[0] is None
    assert found[INPUT].positions.grid == (4, 4)
    inputs = teacher_forced_inputs(loaded, CAPTION.prompt_ids, [*CAPTION.before, CAPTION.token_id])
    assert "pixel_values" not in inputs
    ids, step = torch.tensor([[1, *NEW[:2]]]), 1e-4
    for place in range(16):
        row, column = divmod(place, 4)
        sides = []
        for sign in (1, -1):
            changed = pixels.clone()
            changed[..., 2 * row : 2 * row + 2, 2 * column : 2 * column + 2] *= 1 + sign * step
            given = {"pixel_values": changed, "decoder_input_ids": ids}
            sides.append(plain(loaded, CAPTION.token_id, **given))
        slope = (sides[0] - sides[1]) / (2 * step)
        assert found[INPUT].values[1 + place] == pytest.approx(slope, abs=1e-4)
    assert None not in found[OUTPUT].values


def test_gradients_are_taken_inside_of_inference_mode_too():
    outside = compute_gradient_times_input(model_of("llama"), DECIDED)
    with torch.inference_mode():
        assert compute_gradient_times_input(model_of("llama"), DECIDED) == outside


def without_each(loaded, decided=DECIDED):
    """Return by kind the log-probability without each token, by one plain pass after the other."""
    new = [*decided.before, decided.token_id]
    inputs = teacher_forced_inputs(loaded, decided.prompt_ids, new)
    names = {OUTPUT: "decoder_input_ids" if loaded.is_encoder_decoder else "input_ids"}
    if loaded.is_encoder_decoder:
        names[INPUT] = "input_ids"
    found = {}
    for kind, name in names.items():
        ids = inputs[name]
        found[kind] = []
        for place in range(ids.shape[1]):
            if name == "decoder_input_ids" and place == 0:
                found[kind].append(None)
                continue
            less = torch.cat([ids[:, :place], ids[:, place + 1 :]], 1)
            given = {**inputs, name: less}
            if name == "input_ids":
                given["attention_mask"] = torch.ones_like(less)
            found[kind].append(plain(loaded, decided.token_id, **given))
    return found


@pytest.mark.by_day("gpt2-1024", "qwen2-1024", "qwen2-20")
@pytest.mark.parametrize("positions", [1024, 20, 1])
@pytest.mark.parametrize("name", TEXT_MODELS)
def test_leaving_out_is_plain_passes_one_by_one(name, positions, monkeypatch):
    limits = dataclasses.replace(SETTINGS, max_asking_positions=positions)
    monkeypatch.setattr("engine.inspection.leave_one_out.SETTINGS", limits)
    loaded = model_of(name)
    found = compute_leave_one_out(loaded, DECIDED)
    whole = plain(
        loaded,
        DECIDED.token_id,
        **teacher_forced_inputs(loaded, DECIDED.prompt_ids, [*DECIDED.before, DECIDED.token_id]),
    )
    assert found.logprob == pytest.approx(whole, abs=1e-5)
    assert not found.note
    for kind, values in without_each(loaded).items():
        own = by_kind(found)[kind].values
        assert len(own) == len(values)
        for value, less in zip(own, values, strict=True):
            assert (value is None) == (less is None)
            if less is not None:
                assert value == pytest.approx(whole - less, abs=2e-5)


def test_a_part_of_a_picture_is_painted_over_with_its_mean():
    loaded = model_of("captioner")
    pixels = picture()["pixel_values"]
    found = by_kind(compute_leave_one_out(loaded, CAPTION, picture()))
    ids = torch.tensor([[1, *NEW[:2]]])
    whole = plain(loaded, CAPTION.token_id, pixel_values=pixels, decoder_input_ids=ids)
    assert found[INPUT].positions.grid == (4, 4)
    for place, value in enumerate(found[INPUT].values):
        row, column = divmod(place, 4)
        painted = pixels.clone()
        high = slice(2 * row, 2 * row + 2)
        broad = slice(2 * column, 2 * column + 2)
        painted[..., high, broad] = pixels.mean((-2, -1), keepdim=True)
        less = plain(loaded, CAPTION.token_id, pixel_values=painted, decoder_input_ids=ids)
        assert value == pytest.approx(whole - less, abs=2e-5)
    assert found[OUTPUT].values[0] is None
    less = plain(
        loaded, CAPTION.token_id, pixel_values=pixels, decoder_input_ids=torch.tensor([[1, NEW[0]]])
    )
    assert found[OUTPUT].values[2] == pytest.approx(whole - less, abs=2e-5)


def test_a_picture_within_a_prompt_is_painted_over_and_its_place_stays():
    loaded, pixels = model_of("reader"), picture()["pixel_values"]
    found = by_kind(compute_leave_one_out(loaded, READ, picture()))
    ids = torch.tensor([[*READ.prompt_ids, *READ.before]])
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    whole = plain(loaded, READ.token_id, pixel_values=pixels, **given)
    painted = pixels.clone()
    painted[..., 2:4, 6:8] = pixels.mean((-2, -1), keepdim=True)
    less = plain(loaded, READ.token_id, pixel_values=painted, **given)
    assert found[INPUT].positions.grid == (4, 4)
    assert found[INPUT].values[7] == pytest.approx(whole - less, abs=2e-5)
    held = [value is None for value in found[OUTPUT].values]
    assert held == [False] * 2 + [True] * 16 + [False] * 3
    slopes = by_kind(compute_gradient_times_input(loaded, READ, picture()))
    assert list(slopes) == [OUTPUT]
    assert all(slopes[OUTPUT].values)


def test_a_picture_of_many_patches_is_cut_more_coarsely(monkeypatch):
    limits = dataclasses.replace(SETTINGS, max_left_out_parts=4)
    monkeypatch.setattr("engine.inspection.leave_one_out.SETTINGS", limits)
    part = by_kind(compute_leave_one_out(model_of("captioner"), CAPTION, picture()))[INPUT]
    assert part.positions.grid == (2, 2)
    assert None not in part.values
    assert PICTURE // 2 == 4


def test_the_only_token_of_a_text_is_not_left_out():
    found = compute_leave_one_out(model_of("llama"), TargetToken((5,), (), 9))
    assert found.parts[0].values == (None,)
    assert not found.note


def test_what_time_did_not_reach_is_said(monkeypatch):
    limits = dataclasses.replace(SETTINGS, max_asking_s=0.0)
    monkeypatch.setattr("engine.inspection.leave_one_out.SETTINGS", limits)
    found = compute_leave_one_out(model_of("llama"), DECIDED)
    assert set(found.parts[0].values) == {None}
    assert "Only 0 of 9 positions were left out" in clean(found.note)


def test_leaving_out_ends_when_it_is_given_up():
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(Cancelled):
        compute_leave_one_out(model_of("llama"), DECIDED, None, cancelled)


@pytest.mark.by_day("Bloom", "Jamba", "Lfm2")
@pytest.mark.parametrize("name", KIND_NAMES)
def test_every_architecture_has_both_or_says_why_not(name):
    loaded = zoo_model(name)
    found = compute_leave_one_out(loaded, DECIDED)
    assert any(found.parts[-1].values)
    if name in NO_GRADIENT:
        with pytest.raises(ModelError, match="gives no gradient"):
            compute_gradient_times_input(loaded, DECIDED)
        return
    slopes = compute_gradient_times_input(loaded, DECIDED)
    assert any(slopes.parts[-1].values)
    assert slopes.logprob == pytest.approx(found.logprob, abs=1e-4)


def test_no_parameter_gets_a_gradient():
    model = fresh_model("gpt2")
    next(model.parameters()).requires_grad_(requires_grad=False)
    wanted = [p.requires_grad for p in model.parameters()]
    compute_gradient_times_input(LoadedModel(model, None, "gpt2"), DECIDED)
    assert [p.requires_grad for p in model.parameters()] == wanted
    assert all(p.grad is None for p in model.parameters())
