"""Formulas with a step's numbers: whoever reckons with what is shown gets what is shown."""

from __future__ import annotations

import json
import math

import pytest

from engine.analysis import gallery
from engine.strategies import STRATEGIES
from tests.helpers.strategies import trace_of
from visualizers import summarize_trace
from visualizers.formula.forms import RULES, WITHOUT_NUMBERS, fill_formula
from visualizers.formula.summary import FormulaSummary

# What a custom method decides by is nobody's formula.
ENTRIES = [e for e in gallery.list_entries() if "formula" in STRATEGIES[e.strategy].visuals]
# Every formula once more, as it stands in a book.
BOOK = {
    "softmax": lambda z, s: math.e**z / s,
    "tempered": lambda z, t, s: math.e ** (z / t) / s,
    "biased": lambda z, t, d, s: math.e ** (z / t + d) / s,
    "repeated_up": lambda z, r: z * r,
    "repeated_down": lambda z, r: z / r,
    "dry": lambda z, m, b, n, a: z - m * b ** (n - a),
    "top_k": lambda n, k: n if n <= k else math.nan,
    "top_p": lambda m, c: m if m >= c else math.nan,
    "top_p_last": lambda m, b, c: m - b if m >= c > m - b else math.nan,
    "min_p": lambda a, b: a * b,
    "mirostat": lambda p, m: -math.log(p, 2) if -math.log(p, 2) <= m + 1e-9 else math.nan,
    "adaptive_p": lambda p, t: 5 - 10 * (abs(p - t) / 0.3) ** 2 / (1 + abs(p - t) / 0.3),
    "xtc": lambda c, p, t: c if c <= p else math.nan,
    "xtc_rests": lambda c, p: c if c > p else math.nan,
    "surprise": lambda p: -math.log(p) / math.log(2),
    "race": lambda e, p: e / p,
    "score": lambda s, n, a: s / n**a,
    "finished_score": lambda s, n, a: s / n**a,
    "sum": lambda s, b: s + b,
    "diversity": lambda b, w, n: b - w * n,
    "contrastive": lambda a, p, s: (1 - a) * p - a * s,
    "farthest": lambda d: sorted(d)[-1],
    "mask": lambda a, p: a * p,
    "log_ratio": lambda n, m: n - m,
    "accept": lambda p, q, **judged: 1 if p >= q else p / q,
    "accept_mixture": lambda p, q, w, **judged: min(1, (w * p + (1 - w) * q) / q),
    "match": lambda p, b: b if b > p else math.nan,
    "residual": lambda p, q: p - q if p > q else 0,
    "speed_up": lambda a, g, c: series(a, g) / (1 + c),
    "speed_up_all": lambda g, c: (g + 1) / (1 + c),
    "z": lambda h, n, g: (h - g * n) / math.sqrt(n * g * (1 - g)),
    "tail": lambda h, n, g: sum(
        math.comb(int(n), k) * g**k * (1 - g) ** (n - k) for k in range(int(h), int(n) + 1)
    ),
    "ones": lambda h, n: h / n,
}
# What decides a step, by strategy: each of these stands in at least one step of each recorded run.
DECIDES = {
    "greedy": {"softmax", "argmax", "surprise"},
    "sampling": {"softmax", "tempered", "race", "surprise"},
    "beam_search": {"sum", "score"},
    "beam_sampling": {"sum", "score", "joint"},
    "diverse_beam_search": {"diversity", "sum", "score"},
    "contrastive_search": {"softmax", "contrastive"},
    "dola": {"softmax", "farthest", "mask", "log_ratio"},
    "watermark": {"biased", "race", "z", "tail"},
    "speculative": {"match", "speed_up"},
    "early_exit": {"match", "speed_up"},
    "prompt_lookup": {"match"},
    "mtp": {"match"},
    "universal_assisted": {"speed_up"},
}
OTHERWISE = {
    "speculative-4": "sampled: nothing has to match",
    "speculative-5": "a draft tree: the formula of the speed-up is about drafts in a line",
    "mtp-3": "sampled: nothing has to match",
    "watermark-5": "SynthID has no list",
}
"""Recordings that decide in another way than their strategy's others."""
DRAFTED = ("speculative", "early_exit", "prompt_lookup", "mtp", "universal_assisted")


def series(a, length):
    """1 + a + a^2 + … for a length that need not be whole."""
    return (1 - a ** (length + 1)) / (1 - a)


def number(text):
    return [float(one) for one in text] if isinstance(text, list) else float(text)


def lines_of(trace):
    """Return (step, line) of every formula of a run."""
    shown = summarize_trace(trace, ["formula"])
    return [
        (step, line)
        for step, values in zip(trace.steps, shown, strict=True)
        for line in values["formula"]["lines"]
    ]


def assert_reckons(line):
    """Assert that what is shown of the operands gives what is shown of the result."""
    name = line["form"]
    found = BOOK[name](**{key: number(text) for key, text in line["with"].items()})
    assert rounds_to(line["is"], found), (line, found)


def rounds_to(text, number):
    """Return whether a text is a number, rounded to the digits that the text has."""
    form = line_end(text)
    return abs(float(text) - number) <= 0.5 * 10.0**form * (1 + 1e-6) + 1e-12


def line_end(text):
    """Return the power of ten of the last digit of a number; whole ones end where they must."""
    digits, _, power = text.partition("e")
    return int(power or 0) - len(digits.partition(".")[2])


def test_the_book_has_every_formula():
    assert set(BOOK) == set(RULES)


@pytest.mark.by_day(
    "speculative-4.json.gz", "universal_assisted-2.json.gz", "greedy-smollm2-2.json.gz"
)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.file)
def test_every_formula_of_every_recorded_step_reckons(entry):
    trace = gallery.open_entry(entry.file)
    lines = lines_of(trace)
    # A round without a draft has nothing to reckon where no speed-up can be expected of the run.
    drafted = entry.strategy in DRAFTED
    decided = [s.index for s in trace.steps if not drafted or s.detail.tokens]
    assert {step.index for step, _ in lines} >= set(decided)
    for _, line in lines:
        if "with" in line:
            assert_reckons(line)
        else:
            assert line["form"] in WITHOUT_NUMBERS, line
    if entry.name not in OTHERWISE:
        assert DECIDES[entry.strategy] <= {line["form"] for _, line in lines}


@pytest.mark.by_day("speculative-4.json.gz", "early_exit-2.json.gz", "greedy-smollm2-2.json.gz")
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.file)
def test_results_are_the_figures_that_stand_elsewhere(entry):
    trace = gallery.open_entry(entry.file)
    names = [*STRATEGIES[entry.strategy].visuals, "chart"]
    shown, seen = summarize_trace(trace, names), 0
    for step, line in lines_of(trace):
        for figure in elsewhere(step, line, shown[step.index]):
            assert rounds_to(line["is"], figure), (line, figure)
            seen += 1
    # The formula of a speed-up is about drafts in a line.
    unnamed = entry.strategy == "prompt_lookup" or trace.config.get("draft_tree")
    assert seen >= len(trace.steps) // 2 or unnamed


def elsewhere(step, line, shown):
    """Return the figures of other pictures, and of the record, that a result must agree with."""
    place = next((i for i, c in enumerate(step.candidates) if c.token_id == line.get("of")), None)
    return FIGURES.get(line["form"], lambda *_: [])(step, line, shown, place)


def of_the_best(field):
    """Return what a search holds of its best open text."""

    def figures(step, line, shown, place):
        kept = [node for node in step.detail.pool if node.fate == "kept"]
        return [getattr(max(kept, key=lambda n: n.sum_logprobs), field)] if kept else []

    return figures


def ratios(step, line, shown, place):
    pairs = zip(step.detail.tokens, shown["draft_timeline"]["ratio"], strict=True)
    found = [ratio for token, ratio in pairs if token.token_id == line["of"]]
    return found[:1]


FIGURES = {
    "softmax": lambda step, line, shown, place: [shown["candidates"]["raw"][place]],
    "tempered": lambda step, line, shown, place: [shown["candidates"]["processed"][place]],
    "biased": lambda step, line, shown, place: [shown["candidates"]["processed"][place]],
    "surprise": lambda step, line, shown, place: [shown["chart"]["surprise"]],
    "race": lambda step, *_: [(getattr(step.detail, "draw", 0) or step.detail).racers[0].arrival],
    "score": of_the_best("score"),
    "sum": of_the_best("sum_logprobs"),
    "contrastive": lambda step, line, *_: [
        option.score for option in step.detail.options if option.token_id == line["of"]
    ],
    "log_ratio": lambda step, line, *_: [
        value for token, value in step.detail.contrast_top if token == line["of"]
    ],
    "accept": ratios,
    "speed_up": lambda step, line, shown, place: [
        shown["draft_timeline"]["figures"]["expected_speed_up"]
    ],
    "z": lambda step, line, shown, place: [shown["watermark"]["verdict"]["z_score"]],
    "tail": lambda step, line, shown, place: [shown["watermark"]["verdict"]["p_value"]],
}


def test_filters_say_what_they_kept_and_where_the_line_was():
    trace = trace_of("sampling", temperature=1.3, top_p=0.6, seed=3)
    lines = [(step, line) for step, line in lines_of(trace) if line["form"].startswith("top_p")]
    assert {step.index for step, _ in lines} == {step.index for step in trace.steps}
    for step, line in lines:
        assert_reckons(line)
        kept = next(s for s in step.stages if s.name == "TopP")
        assert rounds_to(line["with"]["m"], kept.kept_mass)
    trace = trace_of("sampling", min_p=0.2, seed=3)
    found = [(step, line) for step, line in lines_of(trace) if line["form"] == "min_p"]
    assert len(found) == len(trace.steps)
    for step, line in found:
        assert_reckons(line)
        for c in step.candidates:
            kept = c.removed_by is None
            assert kept == (math.exp(c.raw_logprob) >= float(line["is"]) * (1 - 1e-3)) or kept


def test_a_repetition_penalty_is_written_out_for_a_token_that_occurred():
    trace = trace_of("sampling", repetition_penalty=0.5, temperature=0.3, max_new_tokens=40, seed=2)
    lines = lines_of(trace)
    again = [line for _, line in lines if line["form"].startswith("repeated")]
    assert again, "no token occurred before"
    for line in again:
        assert_reckons(line)
        assert (float(line["with"]["z"]) < 0) == (line["form"] == "repeated_up")
    assert sum(line["form"] == "tempered" for _, line in lines) == len(trace.steps)


def test_a_result_between_two_last_digits_is_written_with_one_digit_more():
    # Whole operands keep all their digits, so no other way of rounding them can help.
    line = fill_formula("ones", result=0.164999, h=33, n=200)
    assert line["is"] == "0.165"
    assert_reckons(line)
    assert fill_formula("ones", result=0.1733, h=34691, n=200000) is None


@pytest.mark.parametrize(
    ("form", "operands", "shown"),
    [
        ("softmax", {"z": 2.0, "s": 60.0}, "0.12"),
        ("race", {"e": 0.5, "p": 0.0004}, "1250"),
        ("race", {"e": 5.0, "p": 4e-7}, "1.2e+07"),
        ("surprise", {"p": 0.99}, "0.014"),
        ("surprise", {"p": 0.4}, "1.32"),
        ("top_p_last", {"m": 0.93, "b": 0.0304, "c": 0.9}, "0.8996"),
        ("match", {"p": 0.4312, "b": 0.4313}, "0.4313"),
    ],
)
def test_a_result_has_two_digits_and_more_only_where_a_comparison_needs_them(form, operands, shown):
    line = fill_formula(form, **operands)
    assert line["is"] == shown
    assert_reckons(line)


def test_the_probability_that_top_p_kept_has_digits_that_reach_its_limit():
    line = fill_formula("top_p", m=0.9541, c=0.954)
    assert line["with"]["m"] == "0.954"
    assert_reckons(line)


@pytest.mark.parametrize(("u", "kept"), [(0.8571, 1), (0.85717, 0), (0.2, 1)])
def test_a_drafted_token_is_compared_with_digits_that_show_why_it_was_kept(u, kept):
    line = fill_formula("accept", p=0.6, q=0.7, u=u, kept=kept)
    assert (float(line["with"]["u"]) <= float(line["is"])) == bool(kept)
    assert fill_formula("accept", p=0.6, q=0.7, u=u, kept=1 - kept) is None


def test_nothing_is_filled_in_where_something_else_had_a_hand_in_it():
    trace = trace_of("sampling", sequence_bias=[[[3], 2.0]], temperature=0.8)
    assert any(stage.name == "SequenceBias" for stage in trace.steps[0].stages)
    assert not [line for _, line in lines_of(trace) if line["form"] == "tempered"]
    assert fill_formula("race", result=0.7, e=0.5, p=0.5) is None
    assert fill_formula("race", result=1.0, e=0.5, p=0.5)["is"] == "1"
    assert fill_formula("softmax", z=1.0, s=0.0) is None
    assert fill_formula("log_ratio", n=-math.inf, m=-1.0) is None


def test_drafts_are_judged_as_they_were():
    greedy = trace_of("speculative")
    for _, line in lines_of(greedy):
        if "with" in line:
            assert_reckons(line)
    drawn = trace_of("speculative", do_sample=True, seed=5)
    judged = [(step, line) for step, line in lines_of(drawn) if line["form"] == "accept"]
    assert judged
    for step, line in judged:
        assert_reckons(line)
        token = next(t for t in step.detail.tokens if t.token_id == line["of"])
        assert line["kept"] == (token.status == "accepted")
    copied = trace_of("prompt_lookup", do_sample=True)
    forms = {line["form"] for _, line in lines_of(copied)}
    assert "match" not in forms, "the target draws where nothing but copies is offered"


def test_settings_of_a_file_may_be_anything():
    trace = trace_of("contrastive_search")
    trace.config["penalty_alpha"] = "0.6"
    assert all(line["form"] != "contrastive" for _, line in lines_of(trace))
    trace = trace_of("beam_search")
    trace.config.update(length_penalty=None, num_beam_groups=[2])
    begun = FormulaSummary(trace)
    json.dumps([begun.add(step) for step in trace.steps], allow_nan=False)
