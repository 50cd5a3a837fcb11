"""Every bad value gets one sentence with parameter, value and range; the next run works."""

from __future__ import annotations

import json
import time

import pytest

from engine import DecodeRequest, decode, load
from engine.__main__ import main
from engine.events import Failed, Finished
from tests.bad_inputs import BEAMS, PARAMS, PROMPTS, SEEDS, label
from tests.tiny import golden_model

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
    started = time.perf_counter()
    last = list(decode(DecodeRequest(**fields)))[-1]
    assert isinstance(last, Failed), "the request was accepted"
    assert time.perf_counter() - started < 2
    return sentence(str(last.error))


def sentence(text):
    assert "\n" not in text
    assert "Traceback" not in text
    assert "/" not in text.replace("[token ids", "").replace("owner/name", "").replace(
        "evil/repo", ""
    )
    assert len(text) < 800
    assert text.endswith(".")
    return text


@pytest.fixture(scope="module", autouse=True)
def model():
    return load(MODEL)


@pytest.mark.parametrize(("name", "value", "allowed"), PARAMS, ids=label)
def test_parameters_through_the_engine(name, value, allowed):
    text = failure(params={"max_new_tokens": 3, name: value})
    assert text.startswith(f"{name} = ")
    assert allowed in text


@pytest.mark.parametrize(("strategy", "others", "name", "value", "allowed"), BEAMS, ids=label)
def test_beams(strategy, others, name, value, allowed, capsys):
    params = {**others, name: value}
    text = failure(strategy=strategy, params=params)
    assert text.startswith(f"{name} = ")
    assert allowed in text
    settings = [f"--set={key}={json.dumps(item)}" for key, item in params.items()]
    assert main(["run", strategy, "--model", MODEL, "--prompt", "Once", *settings]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert name in err
    assert allowed in err


@pytest.mark.parametrize(("value", "said"), PROMPTS, ids=label)
def test_prompts(value, said):
    assert said in failure(prompt=value)


@pytest.mark.parametrize("value", SEEDS, ids=label)
def test_seeds(value):
    assert "from 0 to 9223372036854775807" in failure(seed=value)


@pytest.mark.parametrize(
    "ids", [[999_999], [-1], [], [1.5], [[1]], "abc", 5, [True], [1] * 5000], ids=label
)
def test_input_ids(ids):
    assert "input_ids" in failure(input_ids=ids)


@pytest.mark.parametrize("top", [0, -1, 51, 1.5, "5", True])
def test_top_candidates(top):
    assert "from 1 to 50" in failure(top_candidates=top)


@pytest.mark.parametrize(
    "model",
    [
        "",
        " ",
        "~",
        "-rf",
        "x" * 300,
        "org/na me",
        "org/é",
        "a/b/c",
        "/etc",
        "..",
        "/etc/passwd",
        "http://169.254.169.254/x",
        "file:///etc/passwd",
        "org/x@main",
        "assets",
        5,
        ["a"],
        {},
        "a\u0000b/c",
    ],
    ids=label,
)
def test_model_names(model):
    last = list(decode(DecodeRequest("greedy", model, "Once")))[-1]
    assert isinstance(last, Failed)
    assert "must be a name of the catalogue" in str(last.error)


def test_strategy_names():
    assert "did you mean greedy" in failure(strategy="gredy")
    assert "one of greedy, sampling" in failure(strategy=None)


def test_both_and_neither_prompt():
    assert "exactly one" in failure(prompt=None)
    request = DecodeRequest("greedy", MODEL, prompt="a", input_ids=[1])
    assert "exactly one" in str(list(decode(request))[-1].error)


def test_what_is_legal_but_needs_a_word():
    def notes(strategy, **params):
        last = list(
            decode(DecodeRequest(strategy, MODEL, "Once", params={"max_new_tokens": 3, **params}))
        )[-1]
        assert isinstance(last, Finished), last.error
        return " ".join(last.trace.notes)

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
    last = list(decode(DecodeRequest("greedy", MODEL, prompt, params={"max_new_tokens": 3})))[-1]
    assert isinstance(last, Finished), last.error
    assert last.trace.prompt == prompt
    eos = last.trace.eos_token_ids
    assert not set(last.trace.prompt_ids) & set(eos), "text became a special token"


def test_a_model_without_a_tokenizer_wants_ids():
    last = list(decode(DecodeRequest("greedy", golden_model("llama"), "Once")))[-1]
    assert "give input_ids" in str(last.error)


@pytest.mark.parametrize(("name", "value", "allowed"), PARAMS, ids=label)
def test_parameters_through_the_command_line(name, value, allowed, capsys):
    text = value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, str):
        text = json.dumps(value)
    status = main(
        ["run", "sampling", "--model", MODEL, "--prompt", "Once", "--set", f"{name}={text}"]
    )
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert name in err
    assert allowed in err


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
    try:
        status = main(argv)
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert capsys.readouterr().err.count("\n") == 1
