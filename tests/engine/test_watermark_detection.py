"""Detection from texts and traces, as functions and on the command line."""

from __future__ import annotations

import dataclasses
import json
import threading

import pytest
import torch

from engine import DecodeRequest, load
from engine.analysis import watermark_detection
from engine.analysis.watermark_detection import (
    DetectError,
    build_watermark_config,
    detect_ids,
    detect_text,
    detect_trace,
)
from engine.cli.main import main
from engine.errors import ParameterError
from engine.trace import json_io
from tests.helpers.models import golden_model
from tests.helpers.runs import finished

PROMPT = "Once upon a time, there was a little girl named Lily. She"


def finish(strategy="watermark", model="storyteller", tokens=60, seed=0, **params):
    params = {"max_new_tokens": tokens, **params}
    return finished(DecodeRequest(strategy, model, PROMPT, params=params, seed=seed))


@pytest.fixture(scope="module")
def marked():
    return finish(bias=4.0)


@pytest.fixture(scope="module")
def file(marked, tmp_path_factory):
    path = tmp_path_factory.mktemp("detect") / "run.json"
    json_io.save(marked, path)
    return str(path)


def run(capsys, *arguments):
    status = main(["detect", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def answer(capsys, *arguments):
    status, out, err = run(capsys, *arguments)
    assert status == 0, err
    assert out.count("\n") == 1
    return json.loads(out, parse_constant=pytest.fail)


def refusal(capsys, *arguments):
    try:
        status, out, err = run(capsys, *arguments)
    except SystemExit as stop:
        status, (out, err) = stop.code, capsys.readouterr()
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def test_a_trace_is_judged_with_its_own_settings(capsys, file, marked):
    found = answer(capsys, "--trace", file)
    details = [step.detail for step in marked.steps]
    assert found["num_tokens"] == len(details)
    assert found["num_tokens_scored"] == sum(d.scored for d in details)
    assert found["num_green_tokens"] == sum(d.scored and d.is_green for d in details)
    assert found["prediction"] is True
    assert found["device"] == "cpu"
    assert found["scheme"]["bias"] == 4.0
    assert [t["text"] for t in found["tokens"]] == [
        marked.pieces[i] for i in marked.outputs[0].token_ids
    ]
    assert found["tokens"][-1]["z_score"] == found["z_score"]
    assert found["tokens"][0]["scored"] is False
    assert found["tokens"][0]["reason"]


def test_a_pasted_text_gets_the_verdict_of_its_trace(capsys, marked):
    text = marked.outputs[0].text
    found = answer(capsys, "--model", "storyteller", "--text", text, "--set", "bias=4.0")
    again = answer(capsys, "--model", "storyteller", "--text", PROMPT + text, "--prompt", PROMPT)
    from_trace = detect_trace(marked).verdict
    for verdict in (found, again):
        assert verdict["z_score"] == pytest.approx(from_trace.z_score)
        assert verdict["p_value"] == pytest.approx(from_trace.p_value)


@pytest.mark.nightly
def test_controls_find_nothing(capsys, file, tmp_path):
    assert not answer(capsys, "--trace", file, "--set", "hashing_key=7")["prediction"]
    assert not answer(capsys, "--trace", file, "--set", "z_threshold=20")["prediction"]
    plain = tmp_path / "plain.json"
    json_io.save(finish("sampling"), plain)
    assert not answer(capsys, "--trace", str(plain))["prediction"]


@pytest.mark.nightly
def test_synthid_says_mean_and_weighted_mean(capsys, tmp_path):
    path = tmp_path / "synthid.json.gz"
    json_io.save(finish(scheme="synthid", top_k=0), path)
    found = answer(capsys, "--trace", str(path))
    rows = [t["g_values"] for t in found["tokens"] if t["scored"]]
    ones = sum(map(sum, rows))
    assert found["g_ones"] == ones
    assert found["mean_g"] == pytest.approx(ones / found["trials"])
    weights = [10 - 9 / 8 * i for i in range(9)]
    weighted = sum(w * g for row in rows for w, g in zip(weights, row, strict=True))
    assert found["weighted_mean_g"] == pytest.approx(weighted / sum(weights) / len(rows))
    assert "num_green_tokens" not in found


def test_every_output_is_judged(tmp_path, capsys):
    path = tmp_path / "three.json"
    trace = finish(num_return_sequences=3, tokens=20, seed=5)
    json_io.save(trace, path)
    found = answer(capsys, "--trace", str(path))
    verdicts = [found, *found["others"]]
    assert [v["num_tokens"] for v in verdicts] == [len(o.token_ids) for o in trace.outputs]


def test_standard_input_is_read(capsys, monkeypatch, marked):
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO(marked.outputs[0].text))
    found = answer(capsys, "--model", "storyteller", "--text", "-", "--set", "bias=4.0")
    assert found["z_score"] == pytest.approx(detect_trace(marked).verdict.z_score)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "one of the arguments --text --trace is required"),
        (["--text", "a", "--trace", "b"], "not allowed with"),
        (["--text", "Hello there"], "Say with --model"),
        (["--text", "", "--model", "storyteller"], "1 to 8000 characters"),
        (["--text", " \n", "--model", "storyteller"], "1 to 8000 characters"),
        (["--text", "a" * 9000, "--model", "storyteller"], "1 to 8000 characters"),
        (["--text", "a", "--model", "storyteller"], "at least 2"),
        (["--text", "Hello there", "--model", "storytell"], "storytell"),
        (
            ["--text", "Hello there", "--model", "storyteller", "--set", "greenlist_ratio=2"],
            "greenlist_ratio = 2 is not allowed",
        ),
        (
            ["--text", "Hello there", "--model", "storyteller", "--set", "seeding_scheme=x"],
            "lefthash, selfhash",
        ),
        (["--text", "Hello there", "--model", "storyteller", "--set", "bias=NaN"], "bias"),
        (["--text", "Hello there", "--model", "storyteller", "--set", "bias"], "name=value"),
        (["--text", "Hello there", "--model", "storyteller", "--device", "abacus"], "'abacus'"),
        (["--trace", "nowhere.json"], "cannot be read"),
        (["--trace", "x.json", "--model", "storyteller"], "leave --model"),
    ],
    ids=str,
)
def test_unusable_input_is_one_line(capsys, arguments, said):
    assert said in refusal(capsys, *arguments)


def test_another_devices_lists_are_refused(capsys, file, marked, tmp_path, monkeypatch):
    assert "marked on 'cpu'" in refusal(capsys, "--trace", file, "--device", "cuda")
    info = dataclasses.replace(marked.model, device="cuda")
    path = tmp_path / "cuda.json"
    json_io.save(dataclasses.replace(marked, model=info), path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "'cuda', which is not on this machine" in refusal(capsys, "--trace", str(path))
    assert "'cuda'" in refusal(
        capsys, "--text", "Hello there", "--model", "storyteller", "--device", "cuda"
    )


def test_one_word_replaced_moves_the_verdict(marked):
    """The last place is no context of another: a green word counts there and a red one does not."""
    size, config = load("storyteller").vocab_size, build_watermark_config({"bias": 4.0})
    ids = list(marked.outputs[0].token_ids)
    before = detect_ids(ids[:-1], config, size).verdict.hits
    hits = {detect_ids([*ids[:-1], word], config, size).verdict.hits for word in range(300, 320)}
    assert hits == {before, before + 1}


def test_functions_refuse_what_they_cannot_judge(marked):
    config = build_watermark_config({})
    with pytest.raises(DetectError, match="no tokenizer"):
        detect_text("abc", golden_model("llama"), config)
    with pytest.raises(DetectError, match="there is no 3"):
        detect_trace(marked, sequence=3)
    with pytest.raises(ParameterError, match="from 0 to 96"):
        detect_ids([1, 2, 97], config, 97)
    with pytest.raises(DetectError, match="has 0 tokens"):
        detect_ids([], config, 97)
    with pytest.raises(ParameterError, match="surrogate"):
        detect_text("half \ud83d", load("storyteller"), config)
    with pytest.raises(ParameterError, match="text = 5"):
        detect_text(5, load("storyteller"), config)


@pytest.mark.parametrize("scheme", ["greenlist", "synthid"])
def test_detecting_computes_in_a_thread_that_ends(scheme, monkeypatch):
    # One that stayed would slow down every later run of the process.
    threads = []
    for name in ("_cached_processor", "mark_tokens", "null_hypothesis"):
        work = getattr(watermark_detection, name)

        def noted(*args, work=work):
            threads.append(threading.current_thread())
            return work(*args)

        monkeypatch.setattr(watermark_detection, name, noted)
    detect_ids([5, 9, 11, 4, 7, 8], build_watermark_config({"scheme": scheme}), 97)
    assert len(threads) == 3
    assert not any(thread.is_alive() for thread in threads)
