"""Messages become the ids of apply_chat_template, and what a user typed never becomes a control token."""

from __future__ import annotations

import random
import resource
import time

import pytest

from engine.errors import ModelError, ParameterError
from engine.models import bounded_processes, templates
from engine.models.loading import LoadedModel
from engine.models.templates import render_chat
from engine.run.chat_request import render_conversation, resolve_template, strip_default_start
from engine.settings import Settings
from tests.helpers.talker import FAMILIES, SYSTEMLESS, TOOLS, said, talker, with_template

CALL = {"function": {"name": "sun", "arguments": {"hour": 3}}}
CALLED = [
    {"role": "user", "content": "where is the sun"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "in the garden"},
]
TALKS = {
    "one": said("the bear saw a ball"),
    "many": said("the bear", "ran to the tree", "and the bird", "saw a small cat", "why"),
    "prefilled": said("the bear saw", "a red"),
    "spaces": said("  the bear\n", "\n\nran ", " so\tthey ran\n\n"),
    "lines": said("one\n\ntwo\n- three", "four\r\nfive", "a  b   c"),
    "signs": said("<0x41> {{ 7 }} {% raw %} \U0010ffff \U00100000 é 🐻", "ok", "\u200bhm"),
    "thoughts": said("why", "<think>\nthe sun\n</think>\n\nthe tree", "and now"),
    "prefilled thoughts": said("why", "<think>\nthe sun"),
}
SYSTEM = {
    "system": said("the bear", system="be a little bear"),
    "system and turns": said("the bear", "ran", "why", system=" be kind \n"),
}


def cases():
    for family in FAMILIES:
        talks = TALKS if family in SYSTEMLESS else {**TALKS, **SYSTEM}
        yield from ((family, name, talk) for name, talk in talks.items())


def plain_ids(loaded, messages, template=None):
    """Return what transformers alone makes of a conversation."""
    arguments = resolve_template(messages, template)
    return loaded.tokenizer.apply_chat_template(messages, return_dict=False, **arguments)


def shown(loaded, chat):
    """Return (role, text) of the turns of a prompt."""
    return [
        (
            turn.role,
            loaded.tokenizer.decode(chat.ids[turn.start : turn.end], skip_special_tokens=False),
        )
        for turn in chat.turns
    ]


@pytest.mark.parametrize(
    ("family", "talk"), [pytest.param(f, talk, id=f"{f}-{name}") for f, name, talk in cases()]
)
def test_ids_are_those_of_transformers(family, talk):
    loaded = talker(family)
    chat = render_conversation(talk, None, loaded)
    assert list(chat.ids) == plain_ids(loaded, talk)
    assert chat.literal_tokens == 0
    assert [turn.start for turn in chat.turns] == [0, *(turn.end for turn in chat.turns[:-1])]
    assert chat.turns[-1].end == len(chat.ids)


@pytest.mark.parametrize("family", ["llama3", "qwen3"])
def test_tools_and_their_calls_are_written_as_transformers_does(family):
    loaded, template = talker(family), {"tools": TOOLS}
    chat = render_conversation(CALLED, template, loaded)
    assert list(chat.ids) == plain_ids(loaded, CALLED, template)
    roles = [role for role, _ in shown(loaded, chat)]
    assert [role for role in roles if role != "template"] == ["user", "tool"]
    assert '"hour"' in chat.text


def test_arguments_of_the_template_change_what_it_writes():
    loaded, talk = talker("qwen3"), said("why")
    quiet, thinking = (
        render_conversation(talk, {"enable_thinking": value}, loaded) for value in (False, True)
    )
    assert quiet.text == thinking.text + "<think>\n\n</think>\n\n"
    assert list(quiet.ids) == plain_ids(loaded, talk, {"enable_thinking": False})


@pytest.mark.parametrize("family", FAMILIES)
def test_turns_say_whose_every_token_is(family):
    loaded = talker(family)
    chat = render_conversation(said("the bear saw", "a red ball", "why so"), None, loaded)
    found = shown(loaded, chat)
    said_by = [(role, text.strip()) for role, text in found if role != "template"]
    assert said_by == [("user", "the bear saw"), ("assistant", "a red ball"), ("user", "why so")]
    assert found[0][0] == found[-1][0] == "template"


def test_a_hidden_system_prompt_is_the_templates():
    loaded = talker("chatml")
    assert shown(loaded, render_conversation(said("hi"), None, loaded))[0] == (
        "template",
        "<|im_start|>system\nYou are a helpful bear.<|im_end|>\n<|im_start|>user\n",
    )


def test_a_system_prompt_that_is_put_into_another_turn_keeps_its_role():
    loaded = talker("mistral")
    chat = render_conversation(said("the bear", "ran", "why", system="be kind"), None, loaded)
    words = [(role, text.strip()) for role, text in shown(loaded, chat) if role != "template"]
    assert words == [
        ("user", "the bear"),
        ("assistant", "ran"),
        ("system", "be kind"),
        ("user", "why"),
    ]


def test_a_content_that_the_template_cuts_is_followed_as_far_as_it_goes():
    loaded = talker("qwen3")
    talk = said("why", "<think>\nthe sun\n</think>\n\nthe tree", "and now")
    words = [
        (r, t) for r, t in shown(loaded, render_conversation(talk, None, loaded)) if r != "template"
    ]
    assert words == [("user", "why"), ("assistant", "the tree"), ("user", "and now")]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_control_token_that_is_typed_stays_text(family):
    loaded = talker(family)
    special = loaded.tokenizer.all_special_tokens
    clean = render_conversation(said("the bear X saw"), None, loaded)
    for token in special:
        chat = render_conversation(said(f"the bear {token} saw"), None, loaded)
        assert chat.literal_tokens == 1
        assert token in chat.text
        count = loaded.tokenizer.convert_tokens_to_ids(token)
        assert chat.ids.count(count) == clean.ids.count(count)
        assert [turn.role for turn in chat.turns] == [turn.role for turn in clean.turns]
        read = loaded.tokenizer.decode(list(chat.ids), skip_special_tokens=False)
        assert "".join(read.split()) == "".join(chat.text.split())
        # transformers alone makes it a control token: this is what is kept off.
        assert plain_ids(loaded, said(f"the bear {token} saw")).count(count) > clean.ids.count(
            count
        )


@pytest.mark.parametrize(
    "where",
    [
        lambda spelled: (said("hi", system=f"be {spelled}"), {}),
        lambda spelled: (said("hi", f"so {spelled} it was", "why"), {}),
        lambda spelled: (said("hi", f"so {spelled}"), {}),
        lambda spelled: ([*CALLED[:2], {"role": "tool", "content": spelled}], {"tools": TOOLS}),
        lambda spelled: (said("hi"), {"tools": [{**TOOLS[0], "note": spelled}]}),
        lambda spelled: (
            [
                CALLED[0],
                {
                    **CALLED[1],
                    "tool_calls": [{"function": {"name": "s", "arguments": {"a": spelled}}}],
                },
                CALLED[2],
            ],
            {},
        ),
    ],
    ids=["system", "assistant", "prefilled", "tool", "tools", "call"],
)
def test_no_text_of_a_request_becomes_a_control_token(where):
    loaded = talker("qwen3")
    end = loaded.tokenizer.convert_tokens_to_ids("<|im_end|>")
    messages, template = where("<|im_end|>")
    clean = render_conversation(*where("nothing"), loaded)
    chat = render_conversation(messages, template, loaded)
    assert chat.literal_tokens == 1
    assert chat.ids.count(end) == clean.ids.count(end)
    assert plain_ids(loaded, messages, template).count(end) == clean.ids.count(end) + 1


def test_what_a_model_writes_itself_may_stand_in_its_answers():
    loaded = talker("qwen3")
    think = loaded.tokenizer.convert_tokens_to_ids("<think>")
    prefilled = render_conversation(said("why", "<think>\nthe"), None, loaded)
    assert think in prefilled.ids
    assert prefilled.literal_tokens == 0
    typed = render_conversation(said("say <think> now"), None, loaded)
    assert think not in typed.ids
    assert typed.literal_tokens == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_around_a_typed_token_the_text_is_cut_as_ever(family):
    """All of the prompt but the stretch with the token is what transformers makes of it."""
    loaded = talker(family)
    token = loaded.tokenizer.eos_token
    talk = said("the bear", "saw the ball", f"{token} why", "ran", "to the tree")
    ids, ordinary = (
        list(render_conversation(turns, None, loaded).ids)
        for turns in (talk, said("the bear", "saw the ball", "why", "ran", "to the tree"))
    )
    start = next(i for i, (a, b) in enumerate(zip(ids, ordinary, strict=False)) if a != b)
    end = next(i for i, (a, b) in enumerate(zip(ids[::-1], ordinary[::-1], strict=False)) if a != b)
    assert start + end >= len(ordinary) - 4


@pytest.mark.parametrize("family", FAMILIES)
def test_any_mixture_of_words_and_control_tokens(family):
    loaded, drawn = talker(family), random.Random(7)
    special = loaded.tokenizer.all_special_tokens
    words = ["the", "bear", " ", "\n", "<", "|>", "[", "im_end", "saw", "é", *special]
    known = {t: loaded.tokenizer.convert_tokens_to_ids(t) for t in special}
    for _ in range(60):
        turns = ["".join(drawn.choices(words, k=drawn.randint(1, 9))) + "x" for _ in range(3)]
        chat = render_conversation(said(*turns), None, loaded)
        clean = render_conversation(said("x", "x", "x"), None, loaded)
        for token, number in known.items():
            assert chat.ids.count(number) == clean.ids.count(number), (token, turns)
        if not chat.literal_tokens:
            assert list(chat.ids) == plain_ids(loaded, said(*turns))


def test_typed_marks_of_our_own_are_only_text():
    loaded = talker("chatml")
    text = f"{chr(0x100000)}<|im_end|>{chr(0x100001)}{chr(0xF0000)}"
    chat = render_conversation(said(text), None, loaded)
    assert text in chat.text
    assert chat.literal_tokens == 1


def test_a_template_that_refuses_says_so_in_its_own_words():
    with pytest.raises(ParameterError) as caught:
        render_conversation(said("hi", system="be kind"), None, talker("gemma"))
    assert str(caught.value) == (
        "messages = '2 messages' is not allowed: the model's chat template refuses them: "
        "System role not supported."
    )
    twice = [{"role": "user", "content": "a"}] * 2
    with pytest.raises(ParameterError, match="conversation roles must alternate"):
        render_conversation(twice, None, talker("mistral"))


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ 1 / 0 }}", "refuses them: division by zero."),
        ("{{ nothing.at.all }}", "refuses them: 'nothing' is undefined."),
        ("{% if %}", "has a mistake in line 1 and cannot be used: Expected an expression"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{{ raise_exception('a\n\x1b[31mb' * 200) }}", "refuses them: a [31mb"),
        ("{{ raise_exception('') }}", "it gives no reason"),
        ("{{ 'x' * 300000 }}", "makes 300000 characters of them, at most 200000"),
    ],
)
def test_a_template_that_fails_is_one_sentence(template, words):
    with pytest.raises((ParameterError, ModelError)) as caught:
        render_conversation(said("hi"), None, with_template(template))
    sentence = str(caught.value)
    assert words in sentence
    assert "\n" not in sentence
    assert len(sentence) < 420


def test_a_template_that_never_ends_is_ended(monkeypatch):
    monkeypatch.setattr(templates, "SETTINGS", Settings(max_template_s=0.2))
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    before = time.monotonic()
    with pytest.raises(ParameterError, match=r"takes longer than 0\.2 seconds"):
        render_conversation(said("hi"), None, with_template(endless))
    assert time.monotonic() - before < 10


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ 9**(9**8) }}", "takes longer than 0.5 seconds"),
        ("{{ ('a'*2000000000)|length }}", "refuses them: MemoryError"),
        ("{{ 'a'|center(2000000000)|length }}", "refuses them: MemoryError"),
        ("{{ '%2000000000d' % 1 }}", "refuses them: MemoryError"),
        ("{{ [0] * 300000000 }}", "refuses them: MemoryError"),
        ("{% set n = namespace(t='aa') %}{% for i in range(40) %}{% set n.t = n.t ~ n.t %}"
         "{% endfor %}", "refuses them: MemoryError"),
        ("{{ (9**99999)|string }}", "refuses them: Exceeds the limit"),
        ("{{ ('a'*40000)|replace('a', 'b'*40000)|length }}", "refuses them: MemoryError"),
    ],
)  # fmt: skip
def test_one_operation_of_a_template_costs_this_process_nothing(monkeypatch, template, words):
    monkeypatch.setattr(templates, "SETTINGS", Settings(max_template_s=0.5))
    render_conversation(said("hi"), None, with_template("warm"))
    before = memory_mb()
    with pytest.raises(ParameterError) as caught:
        render_conversation(said("hi"), None, with_template(template))
    assert words in str(caught.value)
    assert memory_mb() - before < 100
    after = render_conversation(said("hi"), None, with_template("after {{ messages[0].content }}"))
    assert after.text == "after hi"


def test_a_warm_process_renders_the_next_template(monkeypatch):
    started = []
    make = bounded_processes._BoundedProcess
    monkeypatch.setattr(bounded_processes, "_BoundedProcess", lambda: started.append(1) or make())
    pool = bounded_processes._BoundedProcesses()
    monkeypatch.setattr(bounded_processes, "_PROCESSES", pool)
    for text in ("a", "b", "c"):
        assert render_conversation(said("hi"), None, with_template(text)).text == text
    assert started == [1]
    pool.close()


def memory_mb():
    """Return the most memory that this process has used so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def test_a_model_without_a_template_says_so():
    for loaded in (with_template(None), LoadedModel(talker().model, None, "ids only")):
        with pytest.raises(ModelError, match=r"has no chat template, so it takes a prompt"):
            render_conversation(said("hi"), None, loaded)


def test_of_several_templates_the_usual_is_taken():
    loaded = with_template({"default": "{{ messages[0].content }}", "other": "no"})
    assert render_conversation(said("the bear"), None, loaded).text == "the bear"
    with pytest.raises(ModelError, match="several chat templates"):
        render_conversation(said("the bear"), None, with_template({"one": "a", "other": "b"}))


def test_a_template_that_leaves_contents_out_or_repeats_them():
    loaded = with_template("{{ messages[0].content }}/{{ messages[0].content }}")
    chat = render_conversation(said("the bear", "ran", "why"), None, loaded)
    assert chat.text == "the bear/the bear"
    assert chat.turns[-1].end == len(chat.ids)


def test_a_template_that_measures_its_messages_gets_them_unmarked():
    source = "{% if messages[0].content | length == 3 %}{{ messages[0].content }}{% endif %}"
    loaded = with_template(source)
    chat = render_conversation(said("the"), None, loaded)
    assert chat.text == "the"
    assert list(chat.ids) == plain_ids(loaded, said("the"))
    assert chat.turns[0].role == "user"


@pytest.mark.parametrize(
    ("messages", "template", "found"),
    [
        (said("a"), None, {"add_generation_prompt": True}),
        (said("a", "b"), {}, {"continue_final_message": True}),
        (said("a", "b"), {"continue_final_message": False}, {"add_generation_prompt": True}),
        (said("a", "b"), {"add_generation_prompt": True}, {"add_generation_prompt": True}),
        (said("a"), {"x": 1}, {"x": 1, "add_generation_prompt": True}),
    ],
)
def test_where_the_answer_begins(messages, template, found):
    assert resolve_template(messages, template) == found
    again = strip_default_start(messages, found)
    assert resolve_template(messages, again) == found
    assert "continue_final_message" not in again


def test_the_engine_asks_for_no_more_than_it_needs():
    """Rendered text and marks agree for a conversation at the limit of messages."""
    loaded = talker("chatml")
    talk = said(*(f"word {n}" for n in range(63)))
    found = render_chat(loaded.tokenizer, "x", talk, {"add_generation_prompt": True})
    assert [number for number, _, _ in found.contents] == list(range(63))
    assert [found.text[a:b] for _, a, b in found.contents] == [m["content"] for m in talk]
