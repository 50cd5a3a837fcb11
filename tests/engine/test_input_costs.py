"""Small inputs that would cost much are refused before the work; docs/input_costs.md lists the places."""

from __future__ import annotations

import gzip
import itertools
import json
import tracemalloc

import pytest
import yaml

from engine.errors import ParameterError, TraceError
from engine.lessons.lesson import LessonError
from engine.lessons.lesson_parser import parse_yaml
from engine.media import picture_decoder
from engine.messages import Message
from engine.trace import checks
from engine.trace.json_scan import JsonLimitError, JsonLimits, JsonScanner, check_json
from tests.helpers.bombs import MAX_MORE_MB, lists, peak_mb, picture, zipped_lists

MANY = JsonLimits(depth=1000, containers=10**9, values=10**9)


def count(text: bytes, chunk: int) -> tuple[int, int]:
    """Return the containers and values that a scanner counts when it gets a text in chunks."""
    scanner = JsonScanner(MANY)
    for start in range(0, len(text), chunk):
        scanner.feed(text[start : start + chunk])
    return scanner._containers, scanner._values


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        (rb'{"a": [1, 2, {"b": []}]}', (4, 8)),
        (rb'["[[,,::{{", "\"[", "\\", [1]]', (2, 5)),
        (rb'["\\\"[", "\u005b", ","]', (1, 3)),
        (b'["' + b"[" * 50, (1, 1)),
        (b"", (0, 0)),
    ],
)
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1000])
def test_what_strings_contain_does_not_count_wherever_a_chunk_ends(text, counted, chunk):
    assert count(text, chunk) == counted


@pytest.mark.parametrize(
    ("text", "limits", "words"),
    [
        (b"[" * 11, JsonLimits(10, 99, 99), "nests deeper than 10 levels"),
        (b"[],{}," * 5, JsonLimits(10, 9, 99), "has more than 9 objects and lists"),
        (b"1," * 10, JsonLimits(10, 9, 9), "has more than 9 values"),
        (b'{"a":1},' * 4, JsonLimits(10, 9, 9), "has more than 9 values"),
        (b'"' + b"A" * 50 + b'" "' + b"B" * 50, JsonLimits(9, 9, 9, 40), "more than 40 bytes"),
        (
            b"1" * 50,
            JsonLimits(9, 9, 9, 40),
            "more than 40 bytes in addition to one picture or sound",
        ),
    ],
)
def test_what_exceeds_a_limit_is_named(text, limits, words):
    with pytest.raises(JsonLimitError) as caught:
        check_json(text, limits)
    assert words in caught.value.to_message(Message("The text"))
    check_json(b'["' + b"A" * 5000 + b'"]', JsonLimits(9, 9, 9, 40))


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("bomb", "words"),
    [
        (lambda: zipped_lists(30_000_000), "has more than 250,000 objects and lists"),
        (lambda: lists(30_000_000), "has more than 250,000 objects and lists"),
        (
            lambda: gzip.compress(b"[" + b"{}," * 9_000_000, 1),
            "has more than 250,000 objects and lists",
        ),
        (lambda: gzip.compress(b"[" + b"1," * 15_000_000, 1), "has more than 2,500,000 values"),
        (lambda: gzip.compress(b"[" + b"0.1," * 7_000_000, 1), "has more than 2,500,000 values"),
        (lambda: gzip.compress(b"[" + b'"",' * 9_000_000, 1), "has more than 2,500,000 values"),
        (lambda: gzip.compress(b"{" + b'"a":0,' * 5_000_000, 1), "has more than 2,500,000 values"),
        (lambda: gzip.compress(b"[" * 30_000_000, 1), "nests deeper than 40 levels"),
        (lambda: gzip.compress(b'{"a":' * 6_000_000, 1), "nests deeper than 40 levels"),
        (lambda: gzip.compress(b" " * 10**9, 1), "is larger than 32000000 bytes"),
    ],
    ids=lambda value: None if callable(value) else value,
)
def test_a_trace_that_would_cost_much_is_not_parsed(bomb, words, monkeypatch):
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was parsed"))
    text = bomb()

    def refuse():
        with pytest.raises(TraceError, match=words):
            checks.read_json_strict(text, 32_000_000)

    assert peak_mb(refuse) < MAX_MORE_MB


@pytest.mark.parametrize("form", ["PNG", "TIFF", "BMP", "GIF"])
@pytest.mark.parametrize("size", [(1, 60_000), (60_000, 1), (100, 40_000)])
def test_a_picture_with_a_long_side_is_not_decoded(form, size, monkeypatch):
    from PIL.ImageFile import ImageFile

    bomb = picture(*size, form)
    monkeypatch.setattr(ImageFile, "load", lambda self: pytest.fail("it was decoded"))
    with pytest.raises(ParameterError) as caught:
        picture_decoder.decode_picture(bomb)
    said = f"image = '{size[0]}x{size[1]} pixels' is not allowed: at most 30000 pixels on each side"
    assert str(caught.value).startswith(said)


def test_the_time_limit_of_a_picture_counts_between_its_steps(monkeypatch):
    """Decoding a row reads nothing from the file, so reads alone would not notice the time."""
    done = []
    for name in ("_to_scalable_mode", "_scale_down", "_flatten_on_white"):
        whole = getattr(picture_decoder, name)
        monkeypatch.setattr(
            picture_decoder, name, lambda image, n=name, w=whole: done.append(n) or w(image)
        )

    class Late(picture_decoder.BoundedFile):
        def check_time(self):
            if done:
                raise picture_decoder.ReadTimeoutError

    monkeypatch.setattr(picture_decoder, "BoundedFile", Late)
    with pytest.raises(ParameterError, match="opening it may take at most 10 seconds"):
        picture_decoder.decode_picture(picture(9, 9, "PNG"))
    assert done == ["_to_scalable_mode"]


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    "head",
    [
        "\n".join(f"k{n}: 1" for n in range(12_000)),
        "a: [" + "1," * 40_000 + "]",
        "a: [" + "[]," * 30_000 + "]",
        "a: {" + ",".join(f"k{n}: 1" for n in range(9_000)) + "}",
        "a:\n" + "- 1\n" * 20_000,
        "a:\n" + "- {}\n" * 16_000,
        "a:\n" + "- - 1\n" * 14_000,
        "\n".join(f"? k{n}\n: 1" for n in range(8_000)),
        "\n".join(f"k{n}:" for n in range(12_000)),
        "\n".join(f"k{n}: 'x'" for n in range(9_000)),
    ],
    ids=lambda head: head[:8],
)
def test_a_lesson_head_with_very_many_names_is_read_no_further_than_the_limit(head, monkeypatch):
    composed, whole = [], yaml.composer.Composer.compose_node
    monkeypatch.setattr(
        yaml.composer.Composer,
        "compose_node",
        lambda *given: composed.append(1) or whole(*given),
    )
    with pytest.raises(LessonError, match="it has more than 2,000 names and values"):
        parse_yaml(head, "The head")
    assert len(composed) <= 2_000


@pytest.mark.parametrize("head", ["a: " + "[" * 40_000, "a: " + "{b: " * 10_000, "- " * 20_000])
def test_a_lesson_head_that_nests_deeply_is_refused_by_its_depth(head):
    with pytest.raises(LessonError, match="it nests deeper than 40 levels"):
        parse_yaml(head, "The head")
    assert parse_yaml("a: " + "[" * 30 + "]" * 30, "The head")


_TENFOLD = "".join(
    f"{name}: &{name} [{','.join(['*' + old] * 10)}]\n"
    for old, name in itertools.pairwise("abcdefgh")
)


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("head", "refusal"),
    [
        ("a: &a [x,x,x]\n" + _TENFOLD, "refers to another one"),
        ("a: &a {k: 1}\nb: {<<: [" + "*a," * 30_000 + "]}", "refers to another one"),
        ("a: &a [*a]", "refers to another one"),
        ("\n".join(f"k{n}: &a{n} 1" for n in range(6_000)), "more than 2,000 names and values"),
        ("a: !!set {" + ",".join(f"k{n}" for n in range(12_000)) + "}", "more than 2,000 names"),
        ("? [" + "1," * 20_000 + "]\n: 1", "more than 2,000 names and values"),
        ("a: " + "9" * 90_000, "which is no int"),
        ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: !!binary " + "QUJD" * 22_000, ""),
        ("a: 1" + ":59" * 30_000, ""),
        ('a: "' + "\\x41" * 23_000 + '"', ""),
        ("a: >\n" + " x\n\n" * 18_000, ""),
        ("".join(f"%TAG !t{n}! tag:x,{n}:\n" for n in range(3_000)) + "---\na: 1", ""),
    ],
    ids=lambda given: given[:12],
)
def test_a_lesson_head_costs_no_more_than_its_size(head, refusal):
    """Aliases, tags, merges and very long values; a head of 96 kB may take 100 times its size."""
    tracemalloc.start()
    try:
        if refusal:
            with pytest.raises(LessonError, match=refusal):
                parse_yaml(head, "The head")
        else:
            assert [*parse_yaml(head, "The head")] == ["a"]
        assert tracemalloc.get_traced_memory()[1] < 9_600_000
    finally:
        tracemalloc.stop()


def test_a_name_that_is_given_twice_is_found_without_counting_each():
    class Name(str):
        asked = 0

        def __eq__(self, other):
            Name.asked += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    from engine.lessons.lesson_parser import _StrictLoader

    loader = _StrictLoader("")
    scalar = yaml.ScalarNode("tag:yaml.org,2002:str", "")
    pairs = []
    for number in range(900):
        key = yaml.ScalarNode("tag:yaml.org,2002:str", Name(f"k{number}"))
        pairs.append((key, scalar))
    loader.construct_mapping(yaml.MappingNode("tag:yaml.org,2002:map", pairs))
    assert Name.asked < 10 * len(pairs), "the cost grows with the square of the names"
