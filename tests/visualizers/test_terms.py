"""The page marks no word that is not explained, and explains none that it does not mark."""

from __future__ import annotations

import json
import re
from pathlib import Path

from engine.declare.params import params_of
from engine.glossary import TERMS, glossary_texts, term_for_parameter
from engine.strategies import STRATEGIES
from playground.forms.spec import page_spec
from tests.helpers.strategies import trace_of
from visualizers.page import page, page_skeleton

ROOT = Path(__file__).parents[2]
SCRIPTS = [p for f in ("visualizers", "playground/client") for p in (ROOT / f).rglob("*.mjs")]
CALLED = re.compile(r"\bterm\(\s*\"([^\"]+)\"")
# A sentence of ours: a text on one line, with a term in brackets among its words.
TEXT = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|`((?:[^`\\\n]|\\.)*)`")
BRACKETS = re.compile(r"(?<![\w\])}])\[([a-zA-Z][\w –×-]*)(?:\|[^\]]+)?\](?![\w\[(])")
MISTAKES = ("perplexity", "probability", "temperature", "length penalty", "p-value", "token")


def marked_in(text):
    """Return the names of the terms that a script marks."""
    texts = ["".join(found) for found in TEXT.findall(text)]
    return {*CALLED.findall(text), *(name for one in texts for name in BRACKETS.findall(one))}


def test_the_terms_of_a_script_are_found():
    text = 'term("token", "tokens"); told(`[entropy|Entropy] ${a[i]} in [top-p]`); q("a[data-x=1]")'
    assert marked_in(text) == {"token", "entropy", "top-p"}


def test_every_term_that_is_marked_has_an_entry():
    marked = {name: path.name for path in SCRIPTS for name in marked_in(path.read_text())}
    assert {name: path for name, path in marked.items() if name not in {*TERMS, *SELECTORS}} == {}
    assert len(marked) > 40


# What stands in the brackets of a selector or a regular expression.
SELECTORS = {"tabindex", "hidden", "data-lesson", "data-templates", "a-z"}


def test_every_entry_is_used():
    marked = {name for path in SCRIPTS for name in marked_in(path.read_text())}
    parameters = {p for s in STRATEGIES.values() for p in params_of(s.config)} | {"seed"}
    for term in TERMS.values():
        assert set(term.params) <= parameters, term.name
        assert term.name in marked or term.params, f"{term.name} is marked nowhere"


def test_a_parameter_has_one_term_and_the_page_knows_it():
    for name in {p for term in TERMS.values() for p in term.params}:
        assert sum(name in term.params for term in TERMS.values()) == 1, name
    assert term_for_parameter("top_p") == "top-p"
    assert term_for_parameter("max_new_tokens") is None
    declared = {param["name"]: param["term"] for param in page_spec()["params"]}
    assert declared["temperature"] == "temperature"
    assert set(filter(None, declared.values())) <= set(page_spec()["terms"])


def faults_of(term):
    """Yield what is wrong with an entry: it has two plain sentences and at most one warning."""
    if not 1 <= len(re.findall(r"[.!?](?=\s|$)", term.says)) <= 2:
        yield "needs one or two sentences"
    if len(re.findall(r"[.!?](?=\s|$)", term.beware)) > 1:
        yield "has more than one sentence of warning"
    for text in filter(None, (term.says, term.beware)):
        if not text.endswith("."):
            yield f"does not end with a full stop: {text}"
        if "arXiv" in text:
            yield f"names a paper: {text}"
        if len(text) >= 320:
            yield f"has {len(text)} characters: {text}"
    if not term.beware and term.name in MISTAKES:
        yield "lacks its warning"


def test_an_entry_is_two_plain_sentences_and_perhaps_a_mistake_put_right():
    found = [f"{term.name}: {what}" for term in TERMS.values() for what in faults_of(term)]
    assert TERMS
    assert not found, "\n".join(found)


def test_a_page_of_its_own_carries_the_meanings():
    assert glossary_texts()["perplexity"][1].startswith("Perplexity is not quality")
    html = page_skeleton([])
    assert 'id="terms"' in html
    text = html.split('id="terms">')[1].split("</script>")[0]
    assert json.loads(text) == glossary_texts()
    assert "Perplexity is not quality" in page(trace_of("greedy")).html
