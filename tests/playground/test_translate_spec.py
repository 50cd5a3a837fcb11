"""What Python declares for the page in other languages: all of it is there, and nothing else has changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from engine.declare.weights import weights_params
from engine.glossary import glossary_texts
from engine.strategies.chat_presets import CHAT_PRESETS
from engine.strategies.media_presets import MEDIA_PRESETS
from playground.app import page_head, whole_spec
from playground.forms.spec import dependent_weights
from playground.i18n.languages import other_languages, spec_catalogue
from playground.i18n.translate_spec import TEXT_FIELDS, _map_texts, translate_spec
from playground.shell import scripts
from visualizers.page import page_skeleton

_NAMED = re.compile(r"\{(\w+)\}")
_MARKED = re.compile(r"\[([^\]|]+)\|[^\]]+\]")
_QUOTED = re.compile("“([^”]+)”")
HOSTILE = ["xx", "../de", "de.json", "DE", "", "<script>", "d" * 10_000]


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    return whole_spec()


def of_any_machine() -> Iterator[str]:
    """What a machine declares only if it has the model, or the way to hold weights."""
    for talks in CHAT_PRESETS.values():
        for talk in talks:
            yield from (talk.name, talk.shows)
    for presets in MEDIA_PRESETS.values():
        for preset in presets:
            yield from (preset.name, preset.shows)
    for kind in weights_params(assistant=True).values():
        yield from (kind.label, kind.help)
    for only in dependent_weights(assistant=True).values():
        yield only["why"]


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Where every value stands; a list's place is its number."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from leaves(one, (*path, name))
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(value):
            yield from leaves(one, (*path, str(number)))
    else:
        yield path, value


def is_read(path: tuple[str, ...]) -> bool:
    preset = path[-1] == "name" and "presets" in path
    return (
        path[-1] in TEXT_FIELDS
        or preset
        or path[0] in ("groups", "strategy_groups", "filters", "terms")
    )


@pytest.fixture(scope="module")
def asked(spec):
    """The English texts that are looked up in a translation."""
    texts = set(of_any_machine())
    _map_texts(spec, lambda text: texts.add(text) or text)
    assert len(texts) > 500
    return texts


@pytest.mark.parametrize("language", other_languages())
def test_no_translation_is_left_over(asked, language):
    assert set(spec_catalogue(language)) <= asked


# By night: a contributor may leave the translations of new texts to others.
@pytest.mark.nightly
@pytest.mark.parametrize("language", other_languages())
def test_no_translation_is_missing(asked, language):
    assert asked <= set(spec_catalogue(language))


def test_every_strategy_has_a_plain_name_of_its_own_and_a_titled_group(spec):
    for said in (spec, translate_spec(spec, "de")):
        names = [strategy["plain_name"] for strategy in said["strategies"]]
        assert all(names)
        assert len({*names}) == len(names)
        assert all(said["strategy_groups"][one["group"]] for one in said["strategies"])
    assert translate_spec(spec, "de")["strategy_groups"]["repeats"] == "Wiederholungen meiden"


@pytest.mark.parametrize("language", other_languages())
def test_a_text_keeps_its_values_and_its_terms(language):
    for english, other in spec_catalogue(language).items():
        assert other.strip(), english
        assert sorted(_NAMED.findall(english)) == sorted(_NAMED.findall(other)), english
        assert sorted(_MARKED.findall(english)) == sorted(_MARKED.findall(other)), english


@pytest.mark.parametrize("language", other_languages())
def test_a_preset_is_quoted_by_the_name_that_it_has(language):
    known = spec_catalogue(language)
    for english, other in known.items():
        for name in _QUOTED.findall(english):
            assert known.get(name, name) in other, english


@pytest.mark.parametrize("language", other_languages())
def test_what_is_not_read_stays_as_it_is(spec, language):
    there = {**spec, "terms": {}}
    before, after = list(leaves(there)), list(leaves(translate_spec(there, language)))
    assert [path for path, _ in before] == [path for path, _ in after]
    changed = {path for (path, one), (_, other) in zip(before, after, strict=True) if one != other}
    # Another language may be begun; German is whole.
    assert len(changed) > 300 or language != "de"
    assert all(is_read(path) for path in changed), sorted(p for p in changed if not is_read(p))


@pytest.mark.parametrize("language", other_languages())
def test_a_term_keeps_its_name_and_is_given_the_one_that_is_read(spec, language):
    found = translate_spec(spec, language)["terms"]
    assert list(found) == list(spec["terms"])
    words = spec_catalogue(language)
    for name, (says, beware) in spec["terms"].items():
        # A text without a translation stays English; `make nightly` lists those.
        assert found[name] == [
            words.get(says, says),
            words.get(beware, beware),
            words.get(name, name),
        ]
    assert sum(name in words for name in spec["terms"]) > 50 or language != "de"
    assert translate_spec({"terms": glossary_texts()}, language)["terms"] == found


def test_what_a_preset_sets_is_no_text():
    params = {"label": "Seed", "title": "Sampling", "name": "Nucleus"}
    preset = {"name": "Nucleus", "params": params, "messages": [{"content": "Seed"}]}
    found = translate_spec({"presets": [preset]}, other_languages()[0])["presets"][0]
    assert {**found, "name": ""} == {**preset, "name": ""}


def test_english_stays_as_it_is_declared(spec):
    assert translate_spec(spec, "en") is spec


@pytest.mark.parametrize("language", HOSTILE)
def test_what_is_no_language_is_english(spec, language):
    assert translate_spec(spec, language) is spec


def test_a_page_is_given_what_its_reader_reads():
    assert '"label":"Temperature"' in page_head()
    assert '"label":"Temperatur"' in page_head("de")
    assert '"label":"Temperatur"' not in page_head()


def saved(language: str) -> str:
    client = TestClient(Starlette(routes=scripts.routes()))
    address = f"/scripts/{scripts.asset_version()}/page.html"
    return client.get(address, params={"pictures": "xray", "lang": language}).text


def test_a_saved_page_speaks_the_language_of_its_reader():
    page = saved("de")
    assert '<html lang="de">' in page
    assert 'id="dp-texts" lang="de"' in page
    found = re.search(r'id="terms">(.*?)</script>', page)
    assert found is not None
    assert json.loads(found[1])["entropy"][2] == "Entropie"


@pytest.mark.parametrize("language", ["en", *HOSTILE])
def test_a_page_saved_in_no_other_language_is_english(language):
    assert saved(language) == page_skeleton(["xray"])
