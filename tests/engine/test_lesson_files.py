"""A file that is no lesson is refused in one sentence that names what is wrong with it."""

from __future__ import annotations

import pytest

from engine.lessons.lesson import LessonError
from engine.lessons.lesson_parser import parse_lesson
from tests.helpers.lessons import CARD, HEAD, card


def looking(looks: str) -> str:
    """Return a run that is looked into."""
    return f"{{strategy: greedy, prompt: a, looks: [{looks}]}}"


WRONG = {
    "no head": ("# A card\n", "---"),
    "no end of the head": ("---\ntitle: x\n", "no end"),
    "no title": (HEAD.replace("title: A lesson\n", "") + CARD, "title"),
    "long title": (HEAD.replace("A lesson", "x" * 81) + CARD, "title"),
    "unknown field of the head": (
        HEAD.replace("minutes: 3", "minutes: 3\nauthor: me") + CARD,
        "author",
    ),
    "minutes as text": (HEAD.replace("minutes: 3", "minutes: soon") + CARD, "minutes"),
    "minutes too many": (HEAD.replace("minutes: 3", "minutes: 100000") + CARD, "minutes"),
    "language": (HEAD.replace("minutes: 3", "minutes: 3\nlanguage: english") + CARD, "language"),
    "head that is a list": ("---\n- a\n---\n" + CARD, "names with values"),
    "head that is no YAML": ("---\ntitle: [\n---\n" + CARD, "no YAML"),
    "a name twice": (HEAD.replace("minutes: 3", "minutes: 3\nminutes: 4") + CARD, "twice"),
    "an alias": ("---\ntitle: &a x\nfor: *a\nminutes: 1\n---\n" + CARD, "refers to another"),
    "an object of Python": (
        HEAD.replace("A lesson", "!!python/object:os.system x") + CARD,
        "no YAML",
    ),
    "no runs": (HEAD.split("runs:", maxsplit=1)[0] + "---\n" + CARD, "runs"),
    "runs as a list": (HEAD.split("runs:", maxsplit=1)[0] + "runs: [a]\n---\n" + CARD, "runs"),
    "many runs": (
        HEAD.split("runs:", maxsplit=1)[0]
        + "runs:\n"
        + "".join(f"  r{i}: {{recorded: greedy-1}}\n" for i in range(13))
        + "---\n"
        + CARD,
        "12 runs",
    ),
    "name of a run": (HEAD.replace("story:", "../x:") + CARD, "small letters"),
    "run of nothing": (HEAD.replace("{recorded: greedy-1}", "{}") + CARD, "strategy"),
    "run with a field": (
        HEAD.replace("{recorded: greedy-1}", "{recorded: greedy-1, seed: 1}") + CARD,
        "recorded",
    ),
    "run of two prompts": (
        HEAD.replace("{recorded: greedy-1}", "{strategy: greedy, prompt: a, messages: []}") + CARD,
        "not both",
    ),
    "run of nothing but a model": (
        HEAD.replace("{recorded: greedy-1}", "{strategy: greedy, model: captioner}") + CARD,
        "needs a prompt",
    ),
    "a picture of somebody's own": (
        HEAD.replace("{recorded: greedy-1}", "{strategy: greedy, image: /etc/passwd}") + CARD,
        "example:scene-1",
    ),
    "a look that is none": (HEAD.replace("{recorded: greedy-1}", looking("3")) + CARD, "values"),
    "a look without a step": (HEAD.replace("{recorded: greedy-1}", looking("{}")) + CARD, "step"),
    "a look by an unknown method": (
        HEAD.replace("{recorded: greedy-1}", looking("{step: 1, method: guess}")) + CARD,
        "method",
    ),
    "a layer of a gradient": (
        HEAD.replace("{recorded: greedy-1}", looking("{step: 1, method: gradient, layer: 1}"))
        + CARD,
        "attention alone",
    ),
    "two looks of one name": (
        HEAD.replace("{recorded: greedy-1}", looking("{step: 1}, {step: 1, layer: 2}")) + CARD,
        "named attention",
    ),
    "nine looks": (
        HEAD.replace(
            "{recorded: greedy-1}", looking(", ".join(f"{{step: {n}}}" for n in range(1, 10)))
        )
        + CARD,
        "8 at most",
    ),
    "run with odd params": (
        HEAD.replace("{recorded: greedy-1}", "{strategy: greedy, prompt: a, params: 3}") + CARD,
        "params",
    ),
    "no card": (HEAD, "needs a card"),
    "text before the cards": (HEAD + "Hello\n" + CARD, "before the first card"),
    "card without a block": (HEAD + "# A card\n\n## Reveal\n\nx\n", "no block"),
    "two blocks": (HEAD + CARD + "\n```card\nstep: 1\n```\n", "one block"),
    "block without an end": (HEAD + "# A\n\n```card\nstep: 1\n", "no end"),
    "no reveal": (HEAD + CARD.split("## Reveal", maxsplit=1)[0], "Reveal"),
    "unknown part": (HEAD + CARD + "\n## Homework\n\nx\n", "Line"),
    "part twice": (HEAD + CARD + "\n## Reveal\n\nx\n", "each once"),
    "long situation": (card("step: 1", situation="x" * 601), "600 characters"),
    "long reveal": (card("step: 1", reveal="x" * 701), "700 characters"),
    "many cards": (HEAD + CARD * 31, "30 cards"),
    "long file": (HEAD + CARD + "x" * 100_000, "100,000"),
    "unknown field": (card("steps: 1"), "steps"),
    "step 0": (card("step: 0"), "step"),
    "step as text": (card("step: first"), "step"),
    "steps for one run": (card("run: story\nstep: [1, 2]"), "step"),
    "unknown run": (card("run: other"), "no run"),
    "hide": (card("hide: all"), "hide"),
    "kind": (card("bet: {kind: essay, question: q}"), "kind"),
    "bet as text": (card("bet: which?"), "bet"),
    "no question": (card("bet: {kind: text}"), "question"),
    "one option": (
        card("bet: {kind: choice, question: q, options: [{text: a, if: 'step.p < 2'}]}"),
        "options",
    ),
    "option without if": (
        card("bet: {kind: choice, question: q, options: [{text: a}, {text: b}]}"),
        "if",
    ),
    "nine options": (
        card("bet: {kind: token, question: q, options: [a,b,c,d,e,f,g,h,i]}"),
        "options",
    ),
    "options of a truth": (
        card("bet: {kind: truth, question: q, answer: 'step.p < 2', options: [a, b]}"),
        "truth",
    ),
    "no answer": (card("bet: {kind: number, question: q, from: 0, to: 1}"), "answer"),
    "slider backwards": (
        card("bet: {kind: number, question: q, answer: 1, from: 2, to: 1}"),
        "from",
    ),
    "slider of a million stops": (
        card("bet: {kind: number, question: q, answer: 1, to: 1000000, by: 0.1}"),
        "stops",
    ),
    "tolerance of all": (
        card("bet: {kind: number, question: q, answer: 1, to: 10, tolerance: 6}"),
        "tolerance",
    ),
    "among too many": (card("bet: {kind: token, question: q, among: 99}"), "among"),
    "claims that are no list": (card("holds: 3"), "holds"),
    "opens an unknown run": (card("open: {run: other}"), "run"),
    "unit": (card("bet: {kind: number, question: q, answer: 1, to: 10, unit: metres}"), "unit"),
}


@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG)
def test_a_malformed_lesson_is_refused_in_one_sentence(text: str, told: str) -> None:
    with pytest.raises(LessonError) as refused:
        parse_lesson(text, "own")
    said = str(refused.value)
    assert told in said
    assert said.endswith(".")
    assert "\n" not in said
    assert len(said) < 400
