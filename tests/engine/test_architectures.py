"""Every architecture under every strategy: generate()'s own tokens, or one sentence that says why not.

A part of the architectures is tried with every run of the tests, the others by ``make nightly``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pytest

from engine import DecodeRequest, LoadedModel
from engine.strategies import STRATEGIES
from engine.strategies.compatibility import incompatibility_reason, uses_cache
from tests.helpers.models import golden_model, native
from tests.helpers.nightly import mark_nightly
from tests.helpers.references import THRESHOLD, expected, params_of
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean
from tests.helpers.strategies import OURS
from tests.helpers.tokenizers import make_tokenizer
from tests.helpers.zoo import KIND_NAMES, KINDS, made, make_model, zoo_draft, zoo_model

pytestmark = pytest.mark.filterwarnings("ignore")

PROMPT = [5, 9, 11, 4, 5, 9, 11, 33, 40, 5, 9]
NEW = 10
SEED = 3


@lru_cache(maxsize=4)
def speaking(name, draft):
    loaded = zoo_draft(name) if draft else zoo_model(name)
    return LoadedModel(loaded.model, make_tokenizer(48 if draft else 70), loaded.name)


def asked(strategy, name):
    speaks = strategy == "universal_assisted"
    target = speaking(name, False) if speaks else zoo_model(name)
    assistant = speaking(name, True) if speaks else zoo_draft(name)
    params = {"max_new_tokens": NEW, **params_of(strategy)}
    if STRATEGIES[strategy].assistant == "none":
        assistant = None
    return DecodeRequest(
        strategy, target, input_ids=PROMPT, params=params, seed=SEED, assistant=assistant
    )


def greedy(loaded, ids):
    params = {"max_new_tokens": NEW}
    return finished(DecodeRequest("greedy", loaded, input_ids=ids, params=params)).outputs


@pytest.mark.by_day("Bloom-beam_search", "Lfm2-contrastive_search", "Bart-speculative")
@pytest.mark.parametrize("strategy", OURS)
@pytest.mark.parametrize("name", KIND_NAMES)
def test_equal_to_generate_or_refused(name, strategy):
    kind, request = KINDS[name], asked(strategy, name)
    reason = incompatibility_reason(STRATEGIES[strategy], request.model, request.assistant)
    assert (reason is not None) == (strategy in kind.refuses), reason
    if reason is not None:
        assert clean(str(failed(request))) == reason
        assert reason.startswith(f"{name} cannot be used with {STRATEGIES[strategy].title}: ")
        return
    trace = finished(request)
    cached = uses_cache(STRATEGIES[strategy], request.model.capabilities)
    assert [n for n in trace.notes if "missing" in n] == []
    if kind.recomputes or strategy not in ("contrastive_search", "dola", "diverse_beam_search"):
        ids = [list(output.token_ids) for output in trace.outputs]
        assert ids == expected(strategy, request.model, PROMPT, NEW, SEED, cached)
    report = getattr(trace.steps[-1].detail, "report", None)
    if report is not None:
        assert report.parting is None
        assert report.plain_identical in (None, True)


@pytest.mark.by_day("Mamba", "Mamba2", "OpenAIGPT")
@pytest.mark.parametrize("name", KIND_NAMES)
def test_a_run_reads_nothing_of_the_runs_before_it(name):
    loaded = LoadedModel(made(name), None, name)
    _, *texts = (greedy(loaded, ids) for ids in ([33], [33], PROMPT, [33]))
    fresh = greedy(LoadedModel(made(name), None, name), [33])
    assert (texts[0], texts[2]) == (fresh, fresh)


def test_a_sequence_reads_nothing_of_the_sequences_before_it():
    loaded = zoo_model("RecurrentGemma")
    params = {"max_new_tokens": NEW, "num_return_sequences": 3, "do_sample": True, "top_k": 1}
    trace = finished(DecodeRequest("dola", loaded, input_ids=[33], params=params))
    assert len({output.token_ids for output in trace.outputs}) == 1


@pytest.mark.by_day("Lfm2-2", "Lfm2-3")
@pytest.mark.parametrize("layer", [1, 2, 3])
@pytest.mark.parametrize(
    "name",
    [
        "Lfm2",
        "Qwen3Next",
        "Bamba",
        "GraniteMoeHybrid",
        "KimiLinear",
        "NemotronH",
        "OlmoHybrid",
        "Qwen3_5Text",
        "DeepseekV4",
        "FalconH1",
        "Lfm2Moe",
        "Mamba2",
        "Qwen3_5MoeText",
        "Zamba2",
    ],
)
def test_an_exit_before_the_first_attention_changes_nothing(name, layer, monkeypatch):
    """Attention in the last of four layers only, where the architecture has both kinds."""
    kind, late = KINDS[name], {}
    for field in ("layer_types", "layers_block_type"):
        if field in kind.settings:
            first, last = kind.settings[field][:2]
            late[field] = [first, first, first, last]
    monkeypatch.setitem(KINDS, name, replace(kind, settings=kind.settings | late))
    loaded = LoadedModel(made(name), None, name)
    params = {"max_new_tokens": NEW, "num_assistant_tokens": 3, **THRESHOLD}
    params["assistant_early_exit"] = layer
    trace = finished(DecodeRequest("early_exit", loaded, input_ids=PROMPT, params=params))
    assert trace.outputs == greedy(loaded, PROMPT)
    assert sum(step.detail.draft_length for step in trace.steps) > 0


WITHOUT_ATTENTION = {
    "Lfm2": {"layer_types": ["conv"] * 4},
    "Qwen3Next": {"layer_types": ["linear_attention"] * 4},
    "Qwen3_5Text": {"layer_types": ["linear_attention"] * 4},
    "KimiLinear": {"layer_types": ["linear_attention"] * 4},
    "GraniteMoeHybrid": {"layer_types": ["linear_attention"] * 4},
    "Bamba": {"attn_layer_indices": []},
    "NemotronH": {"layers_block_type": ["mamba"] * 4},
    "Zamba2": {"layer_types": ["linear_attention"] * 4, "hybrid_layer_ids": []},
    "Jamba": {"attn_layer_period": 100, "attn_layer_offset": 50},
}


@pytest.mark.parametrize("name", ["Lfm2", *mark_nightly([*WITHOUT_ATTENTION][1:])])
def test_a_hybrid_without_attention_reads_the_text_again(name):
    """Its cache cannot count, so generate() fails with it; without it, both give the same text."""
    kind = KINDS[name]
    settings = kind.settings | WITHOUT_ATTENTION[name]
    loaded = LoadedModel(make_model(replace(kind, settings=settings)), None, name)
    expected = native(loaded, PROMPT, max_new_tokens=NEW, do_sample=False, use_cache=False)
    for strategy in ("greedy", "early_exit", "prompt_lookup"):
        params = {"max_new_tokens": NEW}
        if strategy == "early_exit":
            params |= {"num_assistant_tokens": 3, "assistant_early_exit": 2, **THRESHOLD}
        trace = finished(DecodeRequest(strategy, loaded, input_ids=PROMPT, params=params))
        assert [list(output.token_ids) for output in trace.outputs] == expected
        assert "Every step reads the whole text again" in " ".join(map(str, trace.notes))


@pytest.mark.by_day("Jamba", "Bart", "MT5")
@pytest.mark.parametrize("name", KIND_NAMES)
def test_as_a_draft_it_changes_nothing(name):
    """Its guesses are wrong nearly always, so that it goes back nearly every round."""
    target = golden_model("llama")
    params = {"max_new_tokens": NEW, "num_assistant_tokens": 3, **THRESHOLD}
    request = DecodeRequest(
        "speculative", target, input_ids=PROMPT, params=params, assistant=zoo_model(name)
    )
    reason = incompatibility_reason(STRATEGIES["speculative"], target, zoo_model(name))
    if reason is not None:
        assert clean(str(failed(request))) == reason
        assert zoo_model(name).is_encoder_decoder
        return
    trace = finished(request)
    plain = native(target, PROMPT, do_sample=False, max_new_tokens=NEW)
    assert [list(output.token_ids) for output in trace.outputs] == plain
