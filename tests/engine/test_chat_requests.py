"""Requests of messages: refused in one sentence, decoded like generate(), recorded, replayed, continued."""

from __future__ import annotations

import dataclasses
import json

import pytest

from engine import DecodeRequest, load
from engine.analysis.fork import branch_point, branch_request, make_branch
from engine.analysis.likelihood import score_trace
from engine.analysis.many_draws import draw_many
from engine.analysis.watermark_detection import detect_trace
from engine.cli.main import main
from engine.errors import ModelError, ParameterError, TraceError
from engine.run.request import check_request, request_from_trace
from engine.settings import SETTINGS
from engine.statistics import metrics
from engine.strategies import STRATEGIES
from engine.trace import json_io
from tests.helpers.references import expected, params_of
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean
from tests.helpers.strategies import OURS
from tests.helpers.talker import said, talker, with_template

TALK = said("the little bear saw the little", "bear", "the little bear ran to the little")
NEW, SEED = 8, 3
LONG = "x" * (SETTINGS.max_prompt_chars + 1)
USER = {"role": "user", "content": "hi"}
# (messages, template, parameter, part of the sentence)
BAD = [
    ([], None, "messages", "a list of 1 to 64 messages"),
    ("hi", None, "messages", "a list of 1 to 64 messages"),
    ({}, None, "messages", "a list of 1 to 64 messages"),
    ([USER] * 65, None, "messages", "'65 messages'"),
    (["hi"], None, "messages[0]", "an object with role and content"),
    ([USER, None], None, "messages[1]", "an object with role and content"),
    ([{**USER, "x": 1}], None, "messages[0]", "role, content, name"),
    ([{"content": "hi"}], None, "messages[0].role", "system, user, assistant, tool"),
    ([{"role": "model", "content": "hi"}], None, "messages[0].role", "system, user"),
    ([{"role": ["user"], "content": "hi"}], None, "messages[0].role", "system, user"),
    ([{"role": "user"}], None, "messages[0].content", "it must be text"),
    ([{"role": "user", "content": ["hi"]}], None, "messages[0].content", "it must be text"),
    ([{"role": "user", "content": 7}], None, "messages[0].content", "it must be text"),
    ([{"role": "user", "content": " \n"}], None, "messages", "must say something"),
    (
        [{"role": "user", "content": "a\ud800"}],
        None,
        "messages[0]",
        "surrogate pair at character 1",
    ),
    ([{**USER, "name": 7}], None, "messages[0].name", "it must be text"),
    ([{**USER, "tool_calls": []}], None, "messages[0].tool_calls", "of an assistant"),
    (
        [USER, {"role": "assistant", "content": "a", "tool_calls": "sun"}],
        None,
        "messages[1].tool_calls",
        "it must be a list",
    ),
    (
        [USER, {"role": "assistant", "tool_calls": [{"a": {1, 2}}]}],
        None,
        "messages[1]",
        "plain JSON",
    ),
    (
        [USER, {"role": "assistant", "tool_calls": [{"a": float("nan")}]}],
        None,
        "messages[1]",
        "must be finite",
    ),
    ([USER, {"role": "assistant", "tool_calls": [{1: 2}]}], None, "messages[1]", "are text"),
    ([USER], {"a": 2**63}, "template", "smaller than 2**63"),
    ([{"role": "user", "content": LONG}], None, "messages", "at most 8000 characters"),
    ([USER], {"documents": [{"text": LONG}]}, "messages", "at most 8000 characters"),
    ([USER], [], "template", "an object of names and values"),
    ([USER], {"a b": 1}, "template", "a template's variables"),
    ([USER], {"class": 1}, "template", "a template's variables"),
    ([USER], {1: 1}, "template", "a template's variables"),
    ([USER], {"tokenize": True}, "template.tokenize", "leave it out"),
    ([USER], {"chat_template": "/etc/passwd"}, "template.chat_template", "leave it out"),
    ([USER], {"return_dict": True}, "template.return_dict", "leave it out"),
    ([USER], {"bos_token": "x"}, "template.bos_token", "leave it out"),
    ([USER], {"messages": []}, "template.messages", "leave it out"),
    ([USER], {"tools": {}}, "template.tools", "a list of objects"),
    ([USER], {"tools": ["sun"]}, "template.tools", "a list of objects"),
    ([USER], {"add_generation_prompt": 1}, "template.add_generation_prompt", "true or false"),
    ([USER], {"continue_final_message": "content"}, "template.continue_final_message", "true or"),
    ([USER], {"continue_final_message": True}, "template.continue_final_message", "assistant's"),
    ([USER], {"add_generation_prompt": False}, "template.add_generation_prompt", "exactly one"),
    (
        said("a", "b"),
        {"add_generation_prompt": True, "continue_final_message": True},
        "template.add_generation_prompt",
        "exactly one",
    ),
]


def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


def chat(strategy="greedy", model=None, messages=TALK, template=None, **fields):
    """Return the request of a conversation."""
    params = {"max_new_tokens": NEW, **fields.pop("params", {})}
    loaded = talker() if model is None else model
    return DecodeRequest(
        strategy, loaded, messages=messages, template=template, params=params, seed=SEED, **fields
    )


@pytest.mark.parametrize(("messages", "template", "parameter", "words"), BAD)
def test_what_is_wrong_is_said_before_a_model_is_loaded(messages, template, parameter, words):
    with pytest.raises(ParameterError) as caught:
        check_request(DecodeRequest("greedy", "no/model", messages=messages, template=template))
    assert caught.value.parameter == parameter
    assert words in clean(str(caught.value))


def test_nesting_has_an_end():
    for levels in (17, 5000):
        with pytest.raises(ParameterError, match="nests at most 16 levels"):
            check_request(DecodeRequest("greedy", messages=[USER], template={"a": deep(levels)}))
    check_request(DecodeRequest("greedy", messages=[USER], template={"a": deep(14)}))


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": "hi", "messages": TALK},
        {"input_ids": [5], "messages": TALK},
        {"prompt": "hi", "input_ids": [5], "messages": TALK},
        {},
    ],
)
def test_exactly_one_thing_is_read(fields):
    error = failed(DecodeRequest("greedy", talker(), **fields))
    assert "give exactly one of prompt, input_ids and messages" in clean(str(error))


def test_a_template_needs_messages():
    error = failed(DecodeRequest("greedy", talker(), prompt="hi", template={"x": 1}))
    assert str(error) == "template = {'x': 1} is not allowed: it needs messages."


def test_a_model_without_a_template_is_refused():
    error = failed(chat(model=with_template(None)))
    assert isinstance(error, ModelError)
    assert str(error) == ("tiny-chatml has no chat template, so it takes a prompt and no messages.")
    assert "has no chat template" in clean(str(failed(chat(model=load("storyfixer")))))


def test_a_conversation_longer_than_the_context_is_refused():
    messages = said("the bear saw a ball " * 390)
    error = failed(chat(messages=messages))
    assert clean(str(error)).startswith("messages = ")
    assert "context is 1024 tokens" in str(error)


def ids_of(loaded, messages, **template):
    template = template or {"add_generation_prompt": True}
    return loaded.tokenizer.apply_chat_template(messages, return_dict=False, **template)


@pytest.mark.by_day("greedy", "sampling", "beam_search")
@pytest.mark.parametrize("strategy", OURS)
def test_every_strategy_answers_like_generate(strategy):
    loaded, draft = talker(), None
    if STRATEGIES[strategy].assistant == "same_tokenizer":
        draft = talker(layers=2, seed=9)
    elif STRATEGIES[strategy].assistant == "any_tokenizer":
        draft = talker("llama3", layers=2, seed=9)
    trace = finished(chat(strategy, params=params_of(strategy), assistant=draft))
    ids = ids_of(loaded, TALK)
    assert list(trace.prompt_ids) == ids
    outputs = [list(output.token_ids) for output in trace.outputs]
    assert outputs == expected(strategy, loaded, ids, NEW, SEED, True)
    assert json_io.loads(json_io.dumps(trace)) == trace


def test_a_trace_says_what_was_said():
    trace = finished(
        chat(messages=said("the <|im_end|> bear", system="be kind"), template={"x": 1})
    )
    assert trace.prompt is None
    assert trace.messages == tuple(said("the <|im_end|> bear", system="be kind"))
    assert trace.template == {"x": 1, "add_generation_prompt": True}
    assert trace.literal_tokens == 1
    assert [turn.role for turn in trace.prompt_turns] == [
        "template",
        "system",
        "template",
        "user",
        "template",
    ]
    assert trace.notes == (
        "The messages spell 1 of the template's own tokens; it is read as text.",
    )
    assert json_io.loads(json_io.dumps(trace)) == trace


def test_a_prefilled_answer_is_continued():
    talk = said("why", "the little")
    trace = finished(chat(messages=talk))
    assert trace.template == {"continue_final_message": True}
    assert list(trace.prompt_ids) == ids_of(talker(), talk, continue_final_message=True)
    assert trace.prompt_turns[-1].role == "assistant"


def test_the_same_ids_make_the_same_run():
    first = finished(chat("sampling"))
    again = request_from_trace(first, talker())
    assert again.input_ids == list(first.prompt_ids)
    assert finished(again).outputs == first.outputs


def test_an_older_trace_has_no_messages():
    trace = finished(DecodeRequest("greedy", talker(), prompt="the", params={"max_new_tokens": 2}))
    data = json.loads(json_io.dumps(trace))
    for name in ("messages", "template", "prompt_turns", "literal_tokens"):
        del data[name]
    assert json_io.trace_from_dict(data) == trace
    assert trace.messages is trace.template is None
    assert trace.prompt_turns == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt": "hi"}, "takes the place of trace.prompt"),
        ({"template": None}, "has a template"),
        ({"messages": None}, "trace.messages is missing"),
        ({"messages": []}, "takes the place"),
        ({"messages": [{"role": "bear", "content": "a"}]}, "messages[0].role must be one of"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content must be text"),
        ({"messages": [{"role": "user", "content": "a", "x": 1e70}]}, "no finite number"),
        ({"template": {"x": 10**400}}, "no finite number"),
        ({"template": {"x": "\ud800"}}, "half of a character"),
        ({"literal_tokens": -1}, "literal_tokens is negative"),
        ({"prompt_turns": []}, "do not end with the prompt"),
        ({"prompt_turns": [{"role": "bear", "start": 0, "end": 9}]}, "role must be one of"),
        ({"prompt_turns": [{"role": "user", "start": 1, "end": 9}]}, "does not begin where"),
        ({"prompt_turns": [{"role": "user", "start": 0, "end": 0}]}, "does not begin where"),
    ],
)
def test_a_trace_with_a_conversation_that_cannot_be_is_refused(changes, words):
    data = json.loads(json_io.dumps(finished(chat(params={"max_new_tokens": 2})))) | changes
    with pytest.raises(TraceError) as caught:
        json_io.trace_from_dict(data)
    assert words in str(caught.value)


def test_a_run_is_continued_from_a_step():
    first = finished(chat("sampling"))
    made = make_branch(branch_point(first, 3), text=" ball", tokenizer=talker().tokenizer)
    request = dataclasses.replace(branch_request(first, made, model=talker()), seed=5)
    trace = finished(request)
    kept = first.outputs[0].token_ids[:3]
    assert trace.prompt_ids[: len(first.prompt_ids) + 3] == (*first.prompt_ids, *kept)
    assert trace.messages is None
    assert trace.parent is not None
    assert json_io.loads(json_io.dumps(trace)) == trace


def test_many_draws_begin_with_the_conversation():
    (batch,) = draw_many(chat("sampling", params={"max_new_tokens": 3}), 2)
    assert list(batch.prompt_ids) == ids_of(talker(), TALK)
    alone = finished(chat("sampling", params={"max_new_tokens": 3}))
    assert batch.draws[0].token_ids == alone.outputs[0].token_ids


def test_the_conversation_is_never_counted():
    """Metrics and detectors see the same whether the ids came from messages or were given."""
    talk = said("bear bear bear bear bear bear bear bear")
    for strategy in ("sampling", "watermark"):
        trace = finished(chat(strategy, messages=talk))
        bare = finished(
            DecodeRequest(
                strategy,
                talker(),
                input_ids=list(trace.prompt_ids),
                params={"max_new_tokens": NEW},
                seed=SEED,
            )
        )
        assert trace.outputs == bare.outputs
        both = metrics.compute_metrics(trace), metrics.compute_metrics(bare)
        assert [set(both[0]), both[0]["tokens_per_s"] > 0] == [set(both[1]), True]
        assert all(both[0][name] == both[1][name] for name in both[0] if name != "tokens_per_s")
        assert both[0]["new_tokens"] == len(trace.outputs[0].token_ids)
    found = detect_trace(trace)
    assert found == detect_trace(bare)
    assert found.ids == trace.outputs[0].token_ids
    scores = score_trace(trace, talker())
    assert scores.token_ids == trace.outputs[0].token_ids


def test_words_that_are_allowed_follow_the_rendered_text():
    loaded = talker("mistral")
    params = {"prefix_allowed_tokens_fn": ["the bear"], "max_new_tokens": 2}
    trace = finished(chat(model=loaded, messages=said("why"), params=params))
    assert trace.outputs[0].token_ids == tuple(trace.config["prefix_allowed_tokens_fn"][0][:2])
    assert trace.outputs[0].text.strip().startswith("the")


@pytest.fixture
def folder(tmp_path):
    """A talker as a folder, as the command line takes it."""
    loaded = talker("qwen3")
    loaded.model.save_pretrained(tmp_path / "model")
    loaded.tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_the_command_line_talks(folder, tmp_path, capsys):
    file, trace = tmp_path / "chat.json", tmp_path / "run.json"
    file.write_text(json.dumps(said("the bear", "ran")))
    argv = ["run", "greedy", "--model", str(folder), "--max-new-tokens", "4", "--trace", str(trace)]
    talk = ["--system", "be kind", "--chat-file", str(file), "--message", "why"]
    assert main([*argv, *talk, "--template", "enable_thinking=false"]) == 0
    recorded = json_io.load(trace)
    assert recorded.messages == tuple(said("the bear", "ran", "why", system="be kind"))
    assert recorded.template == {"enable_thinking": False, "add_generation_prompt": True}
    assert capsys.readouterr().out == recorded.outputs[0].text + "\n"
    assert main(["replay", str(trace)]) == 0
    said_first = capsys.readouterr().out.splitlines()[1:5]
    assert said_first == ["system: be kind", "user: the bear", "assistant: ran", "user: why"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--prompt", "a", "--message", "b"], "exactly one of prompt, input_ids and messages"),
        (["--template", "a=1"], "--template = 'a=1' is not allowed: it needs --message"),
        (["--message", "a", "--template", "b"], "--template = 'b' is not allowed"),
        (["--message", "a", "--template", "tokenize=true"], "template.tokenize = True"),
        (["--chat-file", "/no/such/file"], "cannot be read: No such file"),
        (["--chat-file", __file__], "it must hold a JSON list of messages"),
        (["--message", ""], "must say something"),
        (["--fork", "x.json", "--message", "a"], "--fork has the messages of its trace"),
        (["--message", "a"], "storyteller has no chat template"),
    ],
)
def test_the_command_line_refuses_in_one_sentence(argv, words, capsys):
    assert main(["run", "greedy", *argv]) == 2
    assert words in clean(capsys.readouterr().err.strip().splitlines()[-1])
