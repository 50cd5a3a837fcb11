"""What models cannot do is found out before a run: in one sentence, also without their weights."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from transformers import DynamicCache

from engine import STRATEGIES, DecodeRequest, LoadedModel
from engine.analysis.likelihood import score_trace
from engine.cli.main import main
from engine.errors import ModelError
from engine.inspection.logits_cache import RECORDED
from engine.inspection.trace_logits import run_from_trace
from engine.loops.drafting.cache_snapshot import snapshot_cache
from engine.loops.teacher_forced import is_causal
from engine.models import capabilities
from engine.models.capabilities import RESUMABLE_STATE_TYPES
from engine.models.meta_model import CONSTRUCTION_LOCK
from engine.models.model_views import special_ids_config
from engine.sources.source import Source
from engine.strategies.compatibility import incompatibility_reason
from tests.helpers.heads import with_heads
from tests.helpers.models import IDS, fresh_model, native, set_weights, tiny_llama
from tests.helpers.nightly import cross, mark_nightly
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean
from tests.helpers.strategies import NEXT_TOKEN
from tests.helpers.zoo import KIND_NAMES, KINDS, LATENT, Kind, made, make_model, small_config

pytestmark = pytest.mark.filterwarnings("ignore")
TEXT = [5, 9, 11, 4, 33, 40, 17, 8]
FEW = {"max_new_tokens": 5}
DECODERS = ["BigBirdPegasus", "Blenderbot", "BlenderbotSmall", "MBart", "Mvp", "Pegasus", "PLBart"]
WHISPER = {
    "vocab_size": 97,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 0),
}


def whisper():
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**WHISPER))


def vision():
    text = transformers.GPT2Config(
        n_embd=16, n_layer=1, n_head=2, vocab_size=97, add_cross_attention=True
    )
    seen = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(seen, text)
    return transformers.VisionEncoderDecoderModel(config)


def decoder_alone(kind, encoder, decoder):
    sizes = {**IDS, "d_model": 32, "max_position_embeddings": 64}
    sizes |= {"encoder_layers": encoder, "decoder_layers": decoder}
    sizes |= dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4)
    sizes |= dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 64)
    config = getattr(transformers, f"{kind}Config")
    model = getattr(transformers, f"{kind}ForCausalLM")(
        config(**sizes, is_decoder=True, is_encoder_decoder=False)
    )
    set_weights(model, 0.3, 1)
    model.generation_config = special_ids_config(model)  # Bart's forces the last token
    return LoadedModel(model.eval(), None, kind)


@pytest.mark.parametrize(("encoder", "decoder", "compared"), [(4, 2, (1,)), (2, 6, (3, 5))])
@pytest.mark.parametrize("kind", ["Bart", *mark_nightly(DECODERS)])
def test_a_decoder_alone_has_its_own_layers(kind, encoder, decoder, compared):
    loaded = decoder_alone(kind, encoder, decoder)
    assert loaded.layers == decoder
    layers = {"dola_layers": "high"}
    trace = finished(DecodeRequest("dola", loaded, input_ids=TEXT, params={**FEW, **layers}))
    assert trace.steps[0].detail.candidate_layers == compared
    plain = native(loaded, TEXT, do_sample=False, use_cache=False, **FEW)
    for strategy in ("greedy", "speculative", "prompt_lookup"):
        request = DecodeRequest(strategy, loaded, input_ids=TEXT, params=FEW, assistant=loaded)
        assert [list(output.token_ids) for output in finished(request).outputs] == plain


def rembert():
    sizes = {"input_embedding_size": 16, "output_embedding_size": 24}
    return transformers.RemBertForCausalLM(small_config("RemBert", sizes | {"is_decoder": True}))


def hyv4():
    return transformers.HYV4ForCausalLM(small_config("HYV4", {}))


def opt_with_projections():
    return transformers.OPTForCausalLM(small_config("OPT", {"word_embed_proj_dim": 16}))


@pytest.mark.parametrize("make", [rembert, hyv4, opt_with_projections])
def test_states_that_the_head_cannot_read_are_refused_before_the_run(make):
    loaded = LoadedModel(make().eval(), None, "wide")
    sentence = clean(str(failed(DecodeRequest("dola", loaded, input_ids=TEXT, params=FEW))))
    assert sentence.endswith("its layers do not show what they would say.")


def test_states_that_turn_out_unreadable_are_refused(monkeypatch):
    monkeypatch.setattr(capabilities, "_NO_LAYER_STATES_TYPES", frozenset())
    loaded = LoadedModel(hyv4().eval(), None, "streams")
    sentence = clean(str(failed(DecodeRequest("dola", loaded, input_ids=TEXT, params=FEW))))
    assert sentence == "HYV4ForCausalLM shows states between its layers that its head cannot read."


def test_longcats_double_layers_count_once():
    sizes = {"num_layers": 3, "expert_ffn_hidden_size": 32, "zero_expert_num": 2, "moe_topk": 2}
    config = small_config("LongcatFlash", LATENT | sizes)
    model = transformers.LongcatFlashForCausalLM(config)
    loaded = LoadedModel(model.eval(), None, "longcat")
    layers = {"dola_layers": "high"}
    trace = finished(DecodeRequest("dola", loaded, input_ids=TEXT, params={**FEW, **layers}))
    assert (loaded.layers, trace.steps[0].detail.candidate_layers) == (3, (1,))


@pytest.mark.parametrize(("make", "needs"), [(whisper, "audio"), (vision, "image")])
def test_sound_and_pictures_have_to_be_given(make, needs):
    loaded = LoadedModel(make().eval(), None, "other")
    assert loaded.capabilities.needs == needs
    assert loaded.capabilities.takes == {needs}
    assert incompatibility_reason(STRATEGIES["greedy"], loaded) is None
    clean(str(failed(DecodeRequest("greedy", loaded, input_ids=[3]))))


def test_a_folder_of_another_kind_is_refused_before_its_weights_are_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vit"}))
    (tmp_path / "model.safetensors").write_bytes(b"none")
    sentence = clean(str(failed(DecodeRequest("greedy", str(tmp_path), input_ids=[3]))))
    assert "is of the kind vit" in sentence
    assert incompatibility_reason(STRATEGIES["greedy"], Source.parse(str(tmp_path))) == sentence


def test_what_cannot_generate_text_is_refused():
    loaded = LoadedModel(fresh_model("llama").model, None, "half")
    assert "does not write text token by token" in clean(
        str(failed(DecodeRequest("greedy", loaded, input_ids=[3])))
    )


def test_what_fills_whole_blocks_in_any_order_is_refused(tmp_path, capsys):
    """Its generate() is not transformers' own, and has no next token to record."""
    text = {"num_hidden_layers": 2, "hidden_size": 32, "head_dim": 16, "global_head_dim": 16}
    text |= {"intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1}
    text |= {"num_experts": 2, "top_k_experts": 1, "moe_intermediate_size": 16, "vocab_size": 64}
    vision = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 1, "head_dim": 16}
    config = transformers.DiffusionGemmaConfig(
        text_config=text, vision_config=vision | {"intermediate_size": 16}, canvas_length=16
    )
    model = transformers.DiffusionGemmaForBlockDiffusion(config).eval()
    model.save_pretrained(tmp_path)
    sentence = clean(str(failed(DecodeRequest("greedy", str(tmp_path), input_ids=[3]))))
    assert "diffusion_gemma, which does not write its text token by token" in sentence
    assert main(["about", str(tmp_path)]) == 0
    assert sentence in capsys.readouterr().out
    held = LoadedModel(model, None, "held")
    assert "does not write text token by token" in clean(
        str(failed(DecodeRequest("masked_diffusion", held, input_ids=[3])))
    )


def test_names_are_asked_without_weights_and_list_says_it(tmp_path, capsys):
    assert incompatibility_reason(STRATEGIES["greedy"], Source.parse("storyteller")) is None
    assert incompatibility_reason(STRATEGIES["dola"], Source.parse("somebody/elsewhere")) is None
    made("Jamba").config.save_pretrained(tmp_path)
    folder = str(tmp_path)
    reason = f"{folder} cannot be used with Prompt lookup: its cache cannot go back"
    assert incompatibility_reason(STRATEGIES["prompt_lookup"], Source.parse(folder)).startswith(
        reason
    )
    assert main(["list", "--model", folder]) == 0
    said = capsys.readouterr().out
    assert reason in said
    assert "storyfixer cannot be used with DoLa" in said


def test_a_draft_is_asked_too():
    target = LoadedModel(fresh_model("llama"), None, "llama")
    sentence = incompatibility_reason(
        STRATEGIES["speculative"], target, LoadedModel(fresh_model("t5"), None, "t5")
    )
    assert clean(sentence).startswith("t5 cannot be used as a draft with Speculative decoding: ")


def test_every_type_that_is_said_to_resume_is_tried():
    assert {type_of(name) for name in KINDS} >= RESUMABLE_STATE_TYPES


def type_of(name):
    return getattr(transformers, f"{KINDS[name].config}Config").model_type


@pytest.mark.by_day("Bamba", "FalconMamba", "OlmoHybrid")
@torch.no_grad()
@pytest.mark.parametrize(
    "name",
    [n for n in KINDS if type_of(n) in RESUMABLE_STATE_TYPES | {"jamba", "mamba", "falcon_mamba"}],
)
def test_which_states_continue_over_several_tokens_and_come_back(name):
    """The list is what models do, not what they say: read, go astray, go back, read on."""
    model, ids = made(name), torch.tensor([TEXT])
    key = "cache_params" if "mamba" in type(model).__name__.lower() else "past_key_values"
    cache = DynamicCache(config=model.config)
    whole = model(ids, use_cache=False).logits[0, 4:]

    def read(part, start, cache):
        places = torch.arange(start, start + part.shape[1])[None]
        more = {} if key == "cache_params" else {"position_ids": places}
        return model(part, use_cache=True, **{key: cache}, **more).logits[0]

    read(ids[:, :4], 0, cache)
    saved = snapshot_cache(cache)
    read(torch.tensor([[60, 61]]), 4, cache)
    apart = (read(ids[:, 4:], 4, saved) - whole).abs().max()
    assert bool(apart < 1e-3) == (type_of(name) in RESUMABLE_STATE_TYPES)


@pytest.mark.by_day("diverse_beam_search-7", "dola-2", "prompt_lookup-5")
@pytest.mark.parametrize(
    ("strategy", "size"),
    cross([name for name in NEXT_TOKEN if name != "universal_assisted"], (1, 2, 3, 5, 7)),
)
def test_tiny_vocabularies(strategy, size):
    ids = {"vocab_size": size, "bos_token_id": 0, "eos_token_id": None, "pad_token_id": None}
    target = LoadedModel(with_heads(tiny_llama(4, seed=1, **ids)), None, "tiny")
    draft = LoadedModel(tiny_llama(1, seed=2, **ids), None, "draft")
    params = {"max_new_tokens": 4}
    params |= {"assistant_early_exit": 2} if strategy == "early_exit" else {}
    params |= {"greenlist_ratio": 0.6} if strategy == "watermark" else {}
    request = DecodeRequest(strategy, target, input_ids=[0], params=params, assistant=draft)
    if size == 1 and ("beam" in strategy or strategy == "watermark"):
        assert "vocabulary of" in clean(str(failed(request)))
        return
    trace = finished(request)
    assert len(trace.outputs[0].token_ids) == 4
    assert not [note for note in trace.notes if "missing" in note]


@pytest.mark.parametrize("maker", ["from_config", "from_pretrained"])
def test_no_model_is_built_while_another_one_is(maker, monkeypatch, tmp_path):
    tiny_llama(97).save_pretrained(tmp_path)
    auto, held = transformers.AutoModelForCausalLM, []
    right = getattr(auto, maker)

    def watched(*arguments, **options):
        held.append(CONSTRUCTION_LOCK._is_owned())
        return right(*arguments, **options)

    monkeypatch.setattr(auto, maker, watched)
    if maker == "from_config":
        assert incompatibility_reason(STRATEGIES["greedy"], Source.parse(str(tmp_path))) is None
    else:
        request = DecodeRequest(
            "greedy", str(tmp_path), input_ids=[5], params={"max_new_tokens": 1}
        )
        assert finished(request).outputs  # without a tokenizer it speaks ids
    assert held == [True]


def test_fewer_sequences_than_asked_are_a_note():
    loaded = LoadedModel(tiny_llama(4, seed=1), None, "tiny")
    params = {"temperature": 0.001, "num_beams": 5, "num_return_sequences": 5, "max_new_tokens": 6}
    trace = finished(DecodeRequest("beam_sampling", loaded, input_ids=[5, 9, 11], params=params))
    found = sum(output.score is not None for output in trace.outputs)
    assert found < 5 == len(trace.outputs)
    assert trace.notes == (
        f"The search found {found} of the 5 sequences that were asked for; every other was impossible"
        " and only fills up the number.",
    )


@pytest.fixture(params=[False, True], ids=["reads all", "reads a mask"])
def filler(request):
    """An XLM: every place reads the whole text, or those before it and, in a step, a mask behind it."""
    config = transformers.XLMConfig(
        vocab_size=97,
        emb_dim=32,
        n_layers=2,
        n_heads=4,
        max_position_embeddings=128,
        causal=request.param,
        n_langs=1,
        bos_index=0,
        eos_index=1,
        pad_index=2,
        mask_token_id=0,
    )
    model = transformers.XLMWithLMHeadModel(config)
    set_weights(model, 0.3, 1)
    return LoadedModel(model.eval(), None, "xlm")


@pytest.mark.parametrize("strategy", ["prompt_lookup", "speculative"])
def test_a_model_that_is_not_causal_cannot_judge_drafts(filler, strategy):
    request = DecodeRequest(strategy, filler, input_ids=TEXT, params=FEW, assistant=filler)
    sentence = clean(str(failed(request)))
    assert sentence.startswith("xlm cannot be used with ")
    assert sentence.endswith(": a later token changes what it says of an earlier place.")


def test_what_is_not_causal_decodes_but_is_not_scored_in_one_pass(filler):
    trace = finished(DecodeRequest("greedy", filler, input_ids=TEXT, params=FEW))
    plain = native(filler, TEXT, do_sample=False, **FEW)
    assert [list(output.token_ids) for output in trace.outputs] == plain
    with pytest.raises(ModelError, match="A later token changes what xlm says"):
        score_trace(trace, filler)
    assert run_from_trace(trace, model=filler).source == RECORDED


@pytest.mark.parametrize("name", KIND_NAMES)
def test_which_models_are_causal(name):
    loaded = LoadedModel(made(name), None, name)
    assert is_causal(loaded) == (name not in {"CpmAnt", "XLNet"})


@pytest.mark.parametrize("strategy", ["greedy", "prompt_lookup"])
@pytest.mark.parametrize("name", ["Bart", *mark_nightly(["BlenderbotSmall", "Pegasus", "Marian"])])
def test_an_encoder_and_its_decoder_end_with_their_tables_of_positions(name, strategy):
    loaded, last = LoadedModel(made(name), None, name), {"max_new_tokens": 300}
    last["suppress_tokens"] = list(loaded.eos_token_ids)
    full = [5, 9, 11, 4] * 64
    trace = finished(DecodeRequest(strategy, loaded, input_ids=full, params=last))
    written = [list(output.token_ids) for output in trace.outputs]
    assert written == native(loaded, full, do_sample=False, **last | {"max_new_tokens": 255})
    assert "max_new_tokens = 300 was cut to 255: the model's decoder has 256" in trace.notes[0]
    sentence = clean(str(failed(DecodeRequest(strategy, loaded, input_ids=[*full, 5], params=FEW))))
    assert "'257 tokens' is not allowed: the model's encoder reads at most 256 tokens" in sentence


SHORT_TABLES = {
    # The second stream of its decoder reads one row ahead, and its encoder any length.
    "ProphetNet": {"max_position_embeddings": 42},
    "LED": {
        "max_encoder_position_embeddings": 64,
        "max_decoder_position_embeddings": 40,
        "attention_window": 8,
    },
}


@pytest.mark.parametrize(
    "strategy", ["greedy", *mark_nightly(["beam_search", "contrastive_search"])]
)
@pytest.mark.parametrize("name", [*SHORT_TABLES])
def test_a_decoder_ends_with_the_last_position_that_it_can_read(name, strategy):
    kind = Kind(name, SHORT_TABLES[name], f"{name}ForConditionalGeneration")
    loaded = LoadedModel(make_model(kind), None, name)
    last = {"max_new_tokens": 60, "suppress_tokens": list(loaded.eos_token_ids)}
    trace = finished(DecodeRequest(strategy, loaded, input_ids=TEXT * 2, params=last))
    assert {len(output.token_ids) for output in trace.outputs} == {39}
    if strategy == "greedy":
        [output] = trace.outputs
        alone = native(loaded, TEXT * 2, do_sample=False, **last | {"max_new_tokens": 39})
        assert [list(output.token_ids)] == alone
    assert "max_new_tokens = 60 was cut to 39: the model's decoder has 40" in str(trace.notes)


@pytest.mark.parametrize("name", ["MT5", "M2M100"])
def test_relative_positions_and_tables_that_grow_have_no_end(name):
    loaded = LoadedModel(made(name), None, name)
    trace = finished(DecodeRequest("greedy", loaded, input_ids=[5, 9] * 200, params=FEW))
    assert len(trace.outputs[0].token_ids) <= 5
    assert not trace.notes
