"""Every bad value gets one sentence with parameter, value and range; the next run works."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from engine import DecodeRequest, decode, load
from engine.cli.main import main
from engine.models.loading import LoadedModel
from engine.settings import SETTINGS
from engine.trace.events import Failed, StepRecorded
from tests.helpers.bad_inputs import MODELS, NAMES, PARAMS, PROMPTS, SEEDS, label
from tests.helpers.bad_strategy_inputs import STRATEGY_ROWS
from tests.helpers.models import golden_model, tiny_llama
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean

MODEL = "storyteller"


def failure(**request):
    fields = {
        "strategy": "sampling",
        "model": MODEL,
        "prompt": "Once",
        "params": {"max_new_tokens": 3},
    }
    fields |= request
    if "input_ids" in fields:
        del fields["prompt"]
    *before, last = decode(DecodeRequest(**fields))
    assert isinstance(last, Failed), "the request was accepted"
    assert not any(isinstance(event, StepRecorded) for event in before), "refused too late"
    text = clean(str(last.error))
    assert text.endswith(".")
    check_no_path(text)
    return text


def check_no_path(text):
    for known in ("[token ids", "owner/name", "evil/repo"):
        text = text.replace(known, "")
    assert "/" not in text, "a path is told"


@pytest.fixture(scope="module", autouse=True)
def model():
    return load(MODEL)


@pytest.mark.parametrize(("name", "value", "allowed"), PARAMS, ids=label)
def test_parameters_through_the_engine(name, value, allowed):
    text = failure(params={"max_new_tokens": 3, name: value})
    assert text.startswith(f"{name} = ")
    assert allowed in text


@pytest.mark.parametrize(
    ("strategy", "others", "name", "value", "allowed"), STRATEGY_ROWS, ids=label
)
def test_parameters_of_one_strategy(strategy, others, name, value, allowed, capsys):
    params = {"max_new_tokens": 3, **others, name: value}
    text = failure(strategy=strategy, params=params)
    assert text.startswith(f"{name} = ")
    assert allowed in text
    settings = [f"--set={key}={json.dumps(item)}" for key, item in params.items()]
    assert refused(capsys, "run", strategy, "--prompt", "Once", *settings) == text


def refused(capsys, *argv):
    """Return the one line a command ends with on stderr."""
    try:
        status = main(argv)
    except SystemExit as ended:
        status = ended.code
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    return clean(err.removesuffix("\n"))


@pytest.mark.parametrize("name", NAMES, ids=label)
def test_names_that_are_none(name, capsys):
    text = failure(params={name: 1})
    assert "has no such parameter" in text
    assert len(text) < 400
    assert text.isascii() or "…" in text
    assert refused(capsys, "run", "sampling", "--prompt", "Once", f"--set={name}=1") == text


@pytest.mark.parametrize(("value", "said"), [*PROMPTS, ([], "must be text")], ids=label)
def test_prompts(value, said, capsys):
    text = failure(prompt=value)
    assert text.startswith("prompt = ")
    assert said in text
    if isinstance(value, str):
        assert refused(capsys, "run", "sampling", f"--prompt={value}") == text


def test_a_prompt_of_too_many_tokens_is_refused():
    # This model's positions are relative, so that no context ends the prompt before.
    text = failure(model="storyfixer", prompt="x " * 4000)
    assert text.startswith("prompt = ")
    assert f"at most {SETTINGS.max_prompt_tokens} tokens" in text


@pytest.mark.parametrize("value", SEEDS, ids=label)
def test_seeds(value, capsys):
    text = failure(seed=value)
    assert text.startswith("seed = ")
    assert "from 0 to 9223372036854775807" in text
    argv = ["run", "sampling", "--prompt=Once", f"--seed={json.dumps(value)}"]
    assert refused(capsys, *argv) == text


@pytest.mark.parametrize(
    "ids", [[999_999], [-1], [], [1.5], [[1]], "abc", 5, [True], [1] * 5000], ids=label
)
def test_input_ids(ids):
    assert "input_ids" in failure(input_ids=ids)


@pytest.mark.parametrize("top", [0, -1, 51, 1.5, "5", True, None, float("nan")])
def test_top_candidates(top, capsys):
    text = failure(top_candidates=top)
    assert "from 1 to 50" in text
    argv = ["run", "sampling", "--prompt=Once", f"--top={json.dumps(top)}"]
    assert refused(capsys, *argv) == text


@pytest.mark.parametrize("model", MODELS, ids=label)
def test_model_names(model, capsys):
    for request in (
        DecodeRequest("greedy", model, "Once"),
        DecodeRequest("speculative", MODEL, "Once", assistant=model or " "),
    ):
        assert "must be a name of the catalogue" in str(failed(request))
    if isinstance(model, str) and model:
        argv = ["run", "greedy", "--prompt=Once", f"--model={model}"]
        assert "must be a name of the catalogue" in refused(capsys, *argv)


def test_strategy_names():
    assert "did you mean greedy" in failure(strategy="gredy")
    assert "one of greedy, sampling" in failure(strategy=None)


def test_both_and_neither_prompt():
    assert "exactly one" in failure(prompt=None)
    request = DecodeRequest("greedy", MODEL, prompt="a", input_ids=[1])
    assert "exactly one" in str(failed(request))


def test_what_is_legal_but_needs_a_word():
    def notes(strategy, **params):
        params = {"max_new_tokens": 3, **params}
        return " ".join(finished(DecodeRequest(strategy, MODEL, "Once", params=params)).notes)

    assert "top_k = 1000000000 is above the vocabulary" in notes("sampling", top_k=10**9)
    assert "temperature has no effect in greedy" in notes("greedy", temperature=0.5)
    assert notes("sampling", top_k=0, stop_strings=[], sequence_bias=[[[5], 1]]) == ""


@pytest.mark.parametrize(
    "prompt",
    [
        " ",
        "\n\n",
        "a\u0000b",
        "👩‍👩‍👧",
        "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢",
        "\ufeffx",
        "\x1b[31mred",
        "a\u202eb",
        "<|endoftext|>",
        "<img src=x onerror=alert(1)>",
    ],
    ids=label,
)
def test_strange_but_legal_prompts_run(prompt):
    params = {"max_new_tokens": 3, "special_tokens": "text"}
    trace = finished(DecodeRequest("greedy", MODEL, prompt, params=params))
    assert trace.prompt == prompt
    assert not set(trace.prompt_ids) & set(trace.eos_token_ids), "text became a special token"


@pytest.mark.parametrize("strategy", ["greedy", "beam_search", "prompt_lookup", "custom"])
def test_stop_strings_need_a_tokenizer_that_can_spell(strategy):
    """transformers writes each token after "abcdef", and here that is unknown."""
    words = Tokenizer(WordLevel({"<unk>": 0, "GIRL": 1, "BEAR": 2}, unk_token="<unk>"))
    upper = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>")
    loaded = LoadedModel(tiny_llama(2), upper, "shouting")
    params = {"max_new_tokens": 2, "stop_strings": ["GIRL"]}
    said = str(failed(DecodeRequest(strategy, loaded, input_ids=[1, 2], params=params)))
    assert said.startswith("stop_strings = ['GIRL'] is not allowed: transformers cannot compare")
    assert "shouting (ValueError)" in said


def test_a_model_without_a_tokenizer_wants_ids():
    request = DecodeRequest("greedy", golden_model("llama"), "Once")
    assert "give input_ids" in str(failed(request))


@pytest.mark.by_day(3)
@pytest.mark.parametrize(("name", "value", "allowed"), PARAMS, ids=label)
def test_parameters_through_the_command_line(name, value, allowed, capsys):
    text = refused(capsys, "run", "sampling", "--prompt=Once", f"--set={name}={json.dumps(value)}")
    assert text.startswith(f"{name} = ")
    assert allowed in text


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["run"],
        ["run", "greedy"],
        ["fly"],
        ["replay", "/nowhere.json"],
        ["run", "greedy", "--prompt", "a", "--set", "x"],
        ["run", "greedy", "--prompt", "a", "--device", "quantum"],
        ["run", "greedy", "--prompt", "a", "--dtype", "float1"],
        ["run", "nope", "--prompt", "a"],
    ],
    ids=str,
)
def test_unusable_command_lines(argv, capsys):
    assert refused(capsys, *argv)


def test_after_all_that_the_next_run_works(capsys):
    assert main(["run", "greedy", "--prompt=Once upon", "--max-new-tokens=3"]) == 0
    assert capsys.readouterr().out.strip()
