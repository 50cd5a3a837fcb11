"""The watermark bench without a browser: verdicts, controls, escaping, bad input."""

from __future__ import annotations

import re
from html import escape
from itertools import pairwise

import pytest
import torch

from engine import decode
from playground.runs import run_text as writing
from playground.tabs import watermark_bench as bench
from playground.tabs import watermark_view as view
from tests.helpers.jobs import read

MARK = {
    "scheme": "greenlist",
    "greenlist_ratio": 0.25,
    "bias": 4,
    "seeding_scheme": "lefthash",
    "context_width": 1,
    "hashing_key": 15485863,
    "ignore_repeated_ngrams": False,
    "z_threshold": 3,
}
PROMPT = "Once upon a time, there was a little girl named Lily. She"


def asked(text=None, mark=MARK, **other):
    """Return what the page sends."""
    own = {"prompt": None, "model": "storyteller", "seed": 1, "text": text}
    return {**own, **other, "params": {**mark, **other.get("params", {})}}


def judge(text, mark=MARK, **other):
    return bench.judge_text(asked(text, mark, **other))


def write(tokens, mark=MARK):
    form = asked(mark=mark, prompt=PROMPT, params={"max_new_tokens": tokens})
    return list(read(bench.BENCH, form))


def z_of(html):
    return float(re.search(r"data-z='(-?[\d.]+)'", html)[1])


@pytest.fixture(scope="module")
def written():
    return write(80)


def test_special_tokens_in_a_text_are_read_as_the_form_says():
    text = "Lily went to the park.<|endoftext|>She saw a dog and a cat there."
    parsed, spelled = (judge(text, params={"special_tokens": name}) for name in ("", "text"))
    scored = [len(re.findall("class='wm-tok (?:red|green)'", html)) for html in (parsed, spelled)]
    assert scored[0] < scored[1]


def test_the_marked_text_is_found_and_the_plain_one_is_not(written):
    pair, text, verdict = (written[-1][name] for name in ("pair", "text", "judged"))
    assert "perplexity ×" in pair
    assert "Prompt, never counted" in pair
    assert PROMPT not in text
    assert z_of(verdict) > 3
    zs = [float(z) for z in re.findall(r"data-z='(-?[\d.]+)'", pair)]
    assert zs[0] > 3 > zs[1]
    assert zs[0] == pytest.approx(z_of(verdict))
    assert "for good from" in pair


def test_both_texts_are_written_and_judged_as_the_weights_are_held(monkeypatch):
    runs, judges = [], []
    decoded, loaded = writing.decode, bench.load
    monkeypatch.setattr(
        writing, "decode", lambda asked: runs.append(asked.weights) or decoded(asked)
    )
    monkeypatch.setattr(
        bench,
        "load",
        lambda name, weights: judges.append(weights.dtype) or loaded(name, weights=weights),
    )
    params = {"max_new_tokens": 4, "dtype": "bfloat16", "quantization": ""}
    *_, last = read(bench.BENCH, {"prompt": "Once upon a time", "seed": 0, "params": params})
    assert last["text"]
    assert runs == [{"dtype": "bfloat16"}] * 2
    assert judges == ["bfloat16"]
    refused = bench.judge_text({"text": "Once upon a time", "params": {"dtype": "int3"}})
    assert "dtype = &#x27;int3&#x27; is not allowed" in refused


class Replayed:
    """A run that has been, handed over in batches of a fixed size, whatever the time."""

    def __init__(self, events, size=9):
        self.events, self.size = events, size

    run_id = "replayed"

    def batches(self, interval_s, idle_s):
        for start in range(0, len(self.events), self.size):
            yield self.events[start : start + self.size]

    def close(self):
        """Nothing is left to stop."""


def test_both_texts_are_seen_growing(monkeypatch):
    runs = []

    def replayed(request):
        runs.append(list(decode(request)))
        return Replayed(runs[-1])

    monkeypatch.setattr(writing, "decode", replayed)
    *early, last = (message for message in write(20) if "pair" in message)
    # The last batch of a run has its end, and with it the next text or the verdict.
    assert len(early) == sum((len(events) - 1) // 9 for events in runs)
    pairs = [message["pair"] for message in early]
    texts = [re.findall(r"<p class='wm-draft'>(.*?)</p>", pair) for pair in pairs]
    numbers = [int(re.search(r"Writing text (\d) of 2", pair)[1]) for pair in pairs]
    assert numbers == sorted(numbers)
    assert set(numbers) == {1, 2}
    for number in (1, 2):
        own = [text[number - 1] for text, at in zip(texts, numbers, strict=True) if at == number]
        assert len(set(own)) == len(own) > 1
        assert all(later.startswith(sooner) for sooner, later in pairwise(own))
    assert escape(runs[0][-1].trace.outputs[0].text) == texts[-1][0]
    assert "Writing text" not in last["pair"]


def test_a_text_in_the_writing_is_only_text():
    pair = bench._draft_html("<i>Once</i>", [], "<b>upon</b>")
    assert "&lt;i&gt;Once" in pair
    assert "&lt;b&gt;upon" in pair
    assert "<b>upon" not in pair
    assert "<i>" not in pair


def test_a_colour_is_a_letter_too(written):
    marked = r"<span class='wm-tok (\w+)'[^>]*><span class='t'>[^<]*</span><i>([^<]*)</i>"
    said = set(re.findall(marked, written[-1]["judged"]))
    assert said == {("green", "G"), ("red", "R"), ("skip", "–")}


def test_replacing_words_moves_the_verdict_down(written):
    text = written[-1]["text"]
    words = text.split()
    changed = " ".join("tree" if i % 2 else word for i, word in enumerate(words))
    assert z_of(judge(changed)) < z_of(written[-1]["judged"])


def test_a_z_that_repeats_alone_lift_is_called_doubtful():
    text = " the cat sat on the mat and" * 6
    for key in range(1, 40):
        html = judge(text, {**MARK, "hashing_key": key})
        once = re.search(r"without repeats <b>(?:<[^>]*>)?\d+ of \d+, z (−?[\d.]+)", html)
        distinct = float(once[1].replace("−", "-"))
        kind = "no" if z_of(html) <= 3 else "yes" if distinct > 3 else "doubt"
        assert f"wm-verdict {kind}" in html
        if kind == "doubt":
            assert f"every draw counted once gives {once[1]}" in html
            return
    raise AssertionError("no key of 39 gave a doubtful verdict")


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["greenlist", "synthid"])
def test_a_wrong_key_is_the_control(scheme):
    mark = {**MARK, "scheme": scheme}
    html = judge(write(80, mark)[-1]["text"], mark)
    assert z_of(html) > 3
    control = float(re.search(r"wrong key: z = (−?[\d.]+)", html)[1].replace("−", "-"))
    assert control < 3


def test_markup_in_a_text_is_only_text():
    html = judge("<script>alert(1)</script> & more words")
    assert "<script" not in html
    assert "&lt;" in html


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"greenlist_ratio": 0}, "greenlist_ratio"),
        ({"greenlist_ratio": 1}, "greenlist_ratio"),
        ({"hashing_key": 0}, "hashing_key"),
        ({"context_width": 0}, "context_width"),
        ({"z_threshold": -1}, "z_threshold"),
        ({"bias": float("nan")}, "bias"),
        ({"seeding_scheme": "md5"}, "seeding_scheme"),
    ],
    ids=str,
)
def test_bad_settings_get_a_sentence_in_place(changes, says):
    html = judge("some words of a story", {**MARK, **changes})
    assert says in html
    assert "class='dp-status bad'" in html


def test_the_prompt_is_left_out_of_a_text_that_starts_with_it(written):
    text = written[-1]["text"]
    alone = judge(text)
    assert judge(PROMPT + text, prompt=PROMPT) == alone
    assert z_of(judge(PROMPT + text)) != z_of(alone)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="needs a device that is not there")
def test_a_device_that_is_not_there_is_refused(written):
    html = judge(written[-1]["text"], params={"device": "mps"})
    assert "random numbers of &#x27;mps&#x27;" in html
    assert "class='dp-status bad'" in html


@pytest.mark.parametrize("key", [2**32 - 1, 1])
def test_every_key_has_a_wrong_neighbour(key):
    html = judge("some words of a story", {**MARK, "hashing_key": key})
    assert "Control with a wrong key" in html


@pytest.mark.parametrize(
    ("curve", "says"),
    [
        ((None, 1.0, 4.0, 2.0, 3.5, 4.0), "for good from token 5 on"),
        ((4.0, 5.0), "for good from token 1 on"),
        ((4.0, 2.0), "not above it at the end"),
        ((None,), "not above it at the end"),
    ],
)
def test_the_length_it_takes(curve, says):
    assert says in view.plot_html([("text", "", curve)], 3.0)


def test_small_probabilities_are_powers_of_ten():
    assert [view.format_p(p) for p in (0.5, 1e-4, 3.94e-12, 0.0)] == [
        "0.5000",
        "0.0001",
        "3.9 · 10⁻¹²",
        "below 10⁻³⁰⁰",
    ]


def test_a_text_too_short_and_no_text():
    assert "at least" in judge("a", {**MARK, "context_width": 4})
    assert judge("  ") == judge(None) == ""
    assert "text = 5" in judge(5)


def test_a_bad_run_is_one_sentence():
    for bias in (float("inf"), "x"):
        (answer,) = write(20, {**MARK, "bias": bias})
        assert "bias" in answer["error"]
    (answer,) = read(bench.BENCH, {})
    assert "prompt" in answer["error"]
