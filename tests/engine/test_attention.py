"""Attention of a step: transformers' own weights to 1e-5, of a shell that nobody else sees."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest
import torch

from engine import DecodeRequest
from engine.errors import Cancelled, EngineError, ModelError, ParameterError
from engine.inspection.attention import CROSS, SELF, compute_attention
from engine.inspection.influence import InfluenceQuestion, compute_influence
from engine.inspection.influence_methods import METHODS
from engine.inspection.target_token import TargetToken, find_target_token
from engine.loops.teacher_forced import run_teacher_forced
from engine.models.loading import LoadedModel
from engine.models.model_views import build_inspection_view
from engine.settings import SETTINGS
from engine.trace.details import BeamDetail, DraftDetail
from engine.trace.records import MediaInfo, chosen_emit_index, chosen_token_id
from tests.helpers.looking import (
    DECIDED,
    NEW,
    PROMPT,
    READ,
    TEXT_MODELS,
    eager,
    model_of,
    picture,
)
from tests.helpers.media_models import given, media_model
from tests.helpers.models import fresh_model
from tests.helpers.runs import finished
from tests.helpers.sentences import clean
from tests.helpers.strategies import OURS, make, models_for
from tests.helpers.zoo import KIND_NAMES, zoo_model

NO_ATTENTION = {"FalconMamba", "Mamba", "Mamba2", "Rwkv"}
"""Architectures without a layer that attends."""

ELSEWHERE = {"GptOss", "DeepseekV4", "CpmAnt"}
"""Those whose heads may look at nothing, or at what is no position of the text."""


def last(layers):
    return torch.stack([layer[0, :, -1] for layer in layers]).numpy()


@pytest.mark.parametrize("name", TEXT_MODELS)
def test_it_is_what_transformers_shows(name):
    loaded = model_of(name)
    assert loaded.model.config._attn_implementation == "sdpa"
    out = eager(loaded)
    found = {part.kind: part for part in compute_attention(loaded, DECIDED).parts}
    own = out.decoder_attentions if loaded.is_encoder_decoder else out.attentions
    np.testing.assert_allclose(found[SELF].weights, last(own), atol=1e-5, rtol=0)
    np.testing.assert_allclose(found[SELF].weights.sum(-1), 1, atol=1e-5)
    assert (CROSS in found) == loaded.is_encoder_decoder
    if loaded.is_encoder_decoder:
        np.testing.assert_allclose(
            found[CROSS].weights, last(out.cross_attentions), atol=1e-5, rtol=0
        )
        assert found[CROSS].positions.ids == PROMPT
        assert found[CROSS].positions.source == "encoder"
        assert len(found[SELF].positions.ids) == len(NEW)
    else:
        assert found[SELF].positions.ids == (*PROMPT, *NEW[:-1])


def test_a_picture_is_looked_at_in_its_patches():
    loaded = model_of("captioner")
    decided = TargetToken((1,), NEW[:2], NEW[2])
    found = compute_attention(loaded, decided, picture())
    cross, own = found.parts
    out = eager(loaded, picture(), decided)
    np.testing.assert_allclose(cross.weights, last(out.cross_attentions), atol=1e-5, rtol=0)
    np.testing.assert_allclose(own.weights, last(out.decoder_attentions), atol=1e-5, rtol=0)
    assert cross.weights.shape == (3, 2, 17)
    assert (cross.positions.source, cross.positions.grid) == ("patches", (4, 4))
    assert cross.positions.leading == 1
    assert own.positions.ids == (1, *NEW[:2])
    with torch.inference_mode():
        reading = run_teacher_forced(loaded, (1,), NEW[:3], media_inputs=picture())
    logprob = torch.log_softmax(reading.logits[-1], -1)[NEW[2]]
    assert found.logprob == pytest.approx(float(logprob), abs=1e-5)


@pytest.mark.parametrize("name", KIND_NAMES)
def test_every_architecture_shows_it_or_says_that_it_has_none(name):
    loaded = zoo_model(name)
    if name in NO_ATTENTION:
        with pytest.raises(ModelError, match=f"{name} gives no attention") as error:
            compute_attention(loaded, DECIDED)
        clean(str(error.value))
        return
    found = compute_attention(loaded, DECIDED).parts[-1].weights
    assert (found >= 0).all()
    assert (found.sum(-1) <= 1 + 1e-4).all()
    if name not in ELSEWHERE:
        np.testing.assert_allclose(found.sum(-1), 1, atol=1e-4)


def test_a_picture_within_a_prompt_is_found_there():
    loaded = model_of("reader")
    [own] = compute_attention(loaded, READ, picture()).parts
    out = eager(loaded, picture(), READ)
    np.testing.assert_allclose(own.weights, last(out.attentions), atol=1e-5, rtol=0)
    assert own.positions.picture == (2, 4, 4)


def test_a_model_whose_encoder_reads_no_prompt_continues_the_prompt_with_its_decoder():
    class Captioner(LoadedModel):
        is_encoder_decoder = property(lambda self: False)

    plain, decided = model_of("captioner"), TargetToken((1,), NEW[:2], NEW[2])
    own = Captioner(plain.model, None, "captioner")
    found, same = (compute_attention(loaded, decided, picture()) for loaded in (own, plain))
    assert found.logprob == same.logprob
    assert [part.positions for part in found.parts] == [part.positions for part in same.parts]


def test_means_are_over_what_is_not_named():
    part = compute_attention(model_of("gpt2"), DECIDED).parts[0]
    weights = part.weights.astype(np.float64)
    assert part.row() == pytest.approx(weights.mean((0, 1)).tolist())
    assert part.row(layer=2) == pytest.approx(weights[2].mean(0).tolist())
    assert part.row(head=1) == pytest.approx(weights[:, 1].mean(0).tolist())
    assert part.row(3, 0) == pytest.approx(weights[3, 0].tolist())
    for wrong, said in (((4, None), "layers 0 to 3"), ((None, 4), "heads 0 to 3")):
        with pytest.raises(ParameterError, match=said):
            part.row(*wrong)


def state_of(model):
    """All that a question could leave behind in a model."""
    modules = list(model.modules())
    return (
        [id(module) for module in modules],
        [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in modules],
        [module.config._attn_implementation for module in modules if hasattr(module, "config")],
        [(id(p), p.requires_grad, p.grad is None) for p in model.parameters()],
        sorted(k for module in modules for k in vars(module)),
    )


@pytest.mark.parametrize("method", ["attention", "gradient", "leave-one-out"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_the_model_in_memory_is_left_as_it_was(name, method):
    loaded = LoadedModel(fresh_model(name), None, name)
    trace = finished(dataclasses.replace(make("greedy"), model=loaded))
    before = state_of(loaded.model)
    compute_influence(trace, InfluenceQuestion(3, method), model=loaded)
    assert state_of(loaded.model) == before


def test_a_shell_shares_every_weight_and_no_module():
    model = fresh_model("t5")
    shell = build_inspection_view(model, "eager")
    assert {id(p) for p in shell.parameters()} == {id(p) for p in model.parameters()}
    assert not {id(m) for m in shell.modules()} & {id(m) for m in model.modules()}
    assert shell.decoder.embed_tokens.weight is model.decoder.embed_tokens.weight
    assert model.decoder.config._attn_implementation == "sdpa"
    assert shell.decoder.config._attn_implementation == "eager"


@pytest.mark.by_day("greedy", "beam_sampling", "contrastive_search")
@pytest.mark.parametrize("strategy", OURS)
def test_a_step_of_every_strategy_has_its_text(strategy):
    """The model gives the token what the step recorded, so the text before it is the right one."""
    trace = finished(make(strategy))
    loaded = models_for(strategy)[0]
    for step in trace.steps[:6]:
        decided = find_target_token(trace, step.index)
        [recorded] = [c.raw_logprob for c in step.candidates if c.token_id == decided.token_id][:1]
        found = compute_attention(loaded, decided)
        assert found.logprob == pytest.approx(recorded, abs=1e-3)
        if not isinstance(step.detail, BeamDetail):
            assert decided.token_id == chosen_token_id(step)


def test_every_token_of_a_round_and_every_node_of_a_pool_has_its_text():
    trace = finished(make("speculative"))
    step = next(s for s in trace.steps if len(s.emit) > 1)
    assert isinstance(step.detail, DraftDetail)
    first = find_target_token(trace, step.index, at=0)
    assert (first.token_id, len(first.before)) == (step.emit[0], step.keep)
    whole = find_target_token(trace, step.index)
    assert whole == find_target_token(trace, step.index, at=chosen_emit_index(step))
    assert whole.before[step.keep :] == step.emit[:-1]

    trace = finished(make("beam_search", num_beams=3))
    loaded = models_for("beam_search")[0]
    for node in trace.steps[4].detail.pool:
        decided = find_target_token(trace, 4, node_id=node.node_id)
        assert decided.token_id == node.token_id
        assert len(decided.before) == 4
        assert compute_attention(loaded, decided).logprob == pytest.approx(node.logprob, abs=1e-3)


@pytest.mark.parametrize(
    ("strategy", "look", "said"),
    [
        ("greedy", InfluenceQuestion(99), "the run has steps 0 to 9"),
        ("greedy", InfluenceQuestion(1, node_id=3), "only beam searches have nodes"),
        ("greedy", InfluenceQuestion(1, at=1), "the round wrote tokens 0 to 0"),
        (
            "greedy",
            InfluenceQuestion(1, "guess"),
            "it must be one of attention, gradient, leave-one-out",
        ),
        ("beam_search", InfluenceQuestion(1, node_id=10**6), "no such node in its pool"),
    ],
)
def test_what_is_not_there_is_one_sentence(strategy, look, said):
    trace = finished(make(strategy))
    with pytest.raises(ParameterError, match=said) as error:
        compute_influence(trace, look, model=models_for(strategy)[0])
    clean(str(error.value))


def test_more_than_the_memory_may_take_is_refused(monkeypatch):
    limits = dataclasses.replace(SETTINGS, max_attention_bytes=1000)
    monkeypatch.setattr("engine.inspection.attention.SETTINGS", limits)
    with pytest.raises(EngineError, match="ask about an earlier step") as error:
        compute_attention(model_of("llama"), DECIDED)
    clean(str(error.value))


def test_a_question_that_was_given_up_does_not_wait():
    trace = finished(make("greedy"))
    cancelled = threading.Event()
    cancelled.set()
    loaded = LoadedModel(fresh_model("llama"), None, "held")
    with loaded.lock, pytest.raises(Cancelled):
        compute_influence(trace, InfluenceQuestion(2), cancelled, model=loaded)


def test_an_answer_is_ready_for_the_next_layer(monkeypatch):
    trace = finished(make("greedy"))
    loaded = models_for("greedy")[0]
    first = compute_influence(trace, InfluenceQuestion(4), model=loaded)
    monkeypatch.setattr("engine.inspection.influence.compute_attention", pytest.fail)
    assert compute_influence(trace, InfluenceQuestion(4), model=loaded) is first


def test_the_model_of_a_trace_is_loaded_as_it_was_held():
    """And one that cannot be had is one sentence."""
    trace = finished(DecodeRequest("greedy", "storyteller", "Once", params={"max_new_tokens": 3}))
    bare = dataclasses.replace(trace, outputs=())
    found = compute_influence(bare, InfluenceQuestion(2))
    assert found.logprob == pytest.approx(trace.steps[2].candidates[0].raw_logprob, abs=1e-4)
    gone = dataclasses.replace(trace, model=dataclasses.replace(trace.model, id="no-such-model"))
    with pytest.raises(ModelError) as error:
        compute_influence(gone, InfluenceQuestion(2))
    clean(str(error.value))


def test_what_a_run_read_besides_its_text_must_be_at_hand():
    gone = MediaInfo("image", "0" * 64, width=8, height=8)
    trace = dataclasses.replace(finished(make("greedy")), media=(gone,))
    with pytest.raises(EngineError, match="not at hand any more"):
        compute_influence(trace, InfluenceQuestion(2), model=models_for("greedy")[0])


@pytest.mark.by_day(
    "whisper-frames-gradient", "speech2text-frames-gradient", "speech2text-frames-leave-one-out"
)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("name", "source"), [("vit-gpt2", "patches"), ("whisper", "frames"), ("speech2text", "frames")]
)
def test_a_run_about_a_picture_or_a_sound_shows_where_it_looked(name, source, method):
    speech = {"language": "en"} if name == "whisper" else {}
    request = DecodeRequest(
        "greedy", media_model(name), params={"max_new_tokens": 5}, speech=speech, **given(name)
    )
    trace = finished(request)
    found = compute_influence(trace, InfluenceQuestion(2, method), model=media_model(name))
    assert source in {part.positions.source for part in found.parts}
    assert found.logprob == pytest.approx(trace.steps[2].candidates[0].raw_logprob, abs=1e-4)


def test_looking_at_a_prompt_with_a_picture_in_it():
    request = DecodeRequest("greedy", media_model("llava"), "the", **given("llava"))
    trace = finished(dataclasses.replace(request, params={"max_new_tokens": 5}))
    (part,) = compute_influence(trace, InfluenceQuestion(2), model=media_model("llava")).parts
    assert part.positions.count == len(trace.prompt_ids) + 2
    assert part.positions.picture is not None
