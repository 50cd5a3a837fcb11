"""The watermark bench without a browser: verdicts, controls, escaping, bad input."""

from __future__ import annotations

import re

import gradio as gr
import pytest

from playground import watermark_bench as bench

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


def z_of(html):
    return float(re.search(r"data-z='(-?[\d.]+)'", html)[1])


@pytest.fixture(scope="module")
def written():
    values = list(MARK.values())
    return list(bench._write_both(list(MARK), PROMPT, "storyteller", 1, 80, *values))


def test_the_marked_text_is_found_and_the_plain_one_is_not(written):
    pair, text, verdict = written[-1]
    assert "perplexity ×" in pair
    assert "Prompt, not counted" in pair
    assert PROMPT not in text
    assert z_of(verdict) > 3
    zs = [float(z) for z in re.findall(r"<span>z <b>(-?[\d.]+)", pair)]
    assert zs[0] > 3 > zs[1]


def test_replacing_words_moves_the_verdict_down(written):
    text = written[-1][1]
    words = text.split()
    changed = " ".join("tree" if i % 2 else word for i, word in enumerate(words))
    assert z_of(bench.judge_text(changed, "storyteller", MARK)) < z_of(written[-1][2])


@pytest.mark.parametrize("scheme", ["greenlist", "synthid"])
def test_a_wrong_key_is_the_control(written, scheme):
    html = bench.judge_text(written[-1][1], "storyteller", {**MARK, "scheme": scheme})
    control = float(re.search(r"wrong key: z = (-?[\d.]+)", html)[1])
    assert control < 3


def test_markup_in_a_text_is_only_text():
    html = bench.judge_text("<script>alert(1)</script> & more words", "storyteller", MARK)
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
    html = bench.judge_text("some words of a story", "storyteller", {**MARK, **changes})
    assert says in html
    assert "class='dp-status bad'" in html


def test_a_text_too_short_and_no_text():
    assert "at least" in bench.judge_text("a", "storyteller", {**MARK, "context_width": 4})
    assert "Paste or write" in bench.judge_text("  ", "storyteller", MARK)


def test_a_bad_run_is_one_sentence():
    values = [*list(MARK.values())[:2], float("inf"), *list(MARK.values())[3:]]
    with pytest.raises(gr.Error, match="bias"):
        list(bench._write_both(list(MARK), PROMPT, "storyteller", 1, 20, *values))
