"""A prompt that spells special tokens is read as asked for, and words mean the tokens they name."""

from __future__ import annotations

import dataclasses
import json

import pytest

from engine import DecodeRequest, load
from engine.analysis.fork import branch_point, branch_request, make_branch
from engine.analysis.likelihood import _retokenize, score_trace
from engine.analysis.many_draws import draw_many
from engine.analysis.watermark_detection import build_watermark_config, detect_text
from engine.cli.main import main
from engine.errors import ParameterError
from engine.export.files import pipeline_files
from engine.export.generation_config import format_config, parse_config
from engine.export.plan import plan_export
from engine.export.script import script_text
from engine.export.verify import verify_export
from engine.models.loading import LoadedModel
from engine.models.special_tokens import encode_word, find_special_tokens
from engine.run import prompt_request
from engine.run.request import request_from_trace
from engine.trace import json_io
from tests.helpers.models import tiny_llama
from tests.helpers.runs import failed, finished
from tests.helpers.talker import said, talker
from tests.helpers.tokenizers import KINDS, tokenizer_of

END = "<|endoftext|>"
PROMPT = f"One day.{END}One day"
PARSED = (449, 375, 14, 0, 449, 375)


def run(prompt=PROMPT, strategy="greedy", model="storyteller", **params):
    params = {"max_new_tokens": 4, **params}
    return finished(DecodeRequest(strategy, model, prompt, params=params))


@pytest.fixture
def public(monkeypatch):
    settings = dataclasses.replace(prompt_request.SETTINGS, public=True)
    monkeypatch.setattr(prompt_request, "SETTINGS", settings)


def test_a_prompt_is_read_as_the_tokenizer_reads_it():
    trace = run()
    assert trace.prompt_ids == PARSED == tuple(load("storyteller").tokenizer(PROMPT).input_ids)
    assert trace.notes == (
        f"The prompt spells 1 special token of the model (“{END}”); the model reads it as this token.",
    )
    assert (trace.literal_tokens, trace.config["special_tokens"]) == (0, "parse")
    assert json_io.loads(json_io.dumps(trace)) == trace


def test_a_prompt_is_read_as_text_where_that_is_asked_for():
    trace = run(f"{PROMPT}{END}", special_tokens="text")
    assert not set(trace.prompt_ids) & set(trace.special_token_ids)
    assert trace.notes == (
        f"The prompt spells 2 special tokens of the model (“{END}”); they are read as text.",
    )
    assert (trace.literal_tokens, trace.config["special_tokens"]) == (2, "text")
    assert json_io.loads(json_io.dumps(trace)) == trace


def test_a_public_page_reads_text(public):
    assert run().literal_tokens == 1
    assert run(special_tokens="parse").prompt_ids == PARSED


def test_a_prompt_without_any_says_nothing():
    for reading in (None, "text", "parse"):
        trace = run("One day <b> |x| [INST]", special_tokens=reading)
        assert (trace.notes, trace.literal_tokens) == ((), 0)


def test_other_values_are_refused():
    request = DecodeRequest("greedy", "storyteller", "a", params={"special_tokens": "both"})
    assert "one of text, parse" in str(failed(request))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_found_is_what_the_tokenizer_reads(kind):
    tokenizer = tokenizer_of(kind)
    text = "the bear</s> ran</s>zzz</s"
    assert find_special_tokens(tokenizer, text) == ["</s>", "</s>"]
    assert find_special_tokens(tokenizer, "the bear </ s> ééé") == []


def test_a_token_that_cannot_be_text_is_refused():
    tokenizer = tokenizer_of("unigram")
    loaded = LoadedModel(tiny_llama(2, vocab_size=len(tokenizer)), tokenizer, "tiny-unigram")
    request = DecodeRequest("greedy", loaded, "the</s>", params={"special_tokens": "text"})
    error = failed(request)
    assert "cannot write this control token as text" in str(error)
    assert "special_tokens = parse" in str(error)


def test_many_draws_read_the_prompt_as_one_run_does():
    params = {"max_new_tokens": 2, "special_tokens": "text"}
    for given in (params, {"max_new_tokens": 2}):
        request = DecodeRequest("sampling", "storyteller", PROMPT, params=given)
        (batch,) = draw_many(request, 2)
        assert batch.prompt_ids == finished(request).prompt_ids


def test_messages_are_text_unless_tokens_are_asked_for():
    loaded, talk = talker(), said("the <|im_end|> bear")
    request = DecodeRequest("greedy", loaded, messages=talk, params={"max_new_tokens": 2})
    own = loaded.tokenizer.apply_chat_template(talk, add_generation_prompt=True, return_dict=False)
    text = finished(request)
    assert (text.literal_tokens, text.config["special_tokens"]) == (1, "text")
    assert list(text.prompt_ids) != own
    params = {"max_new_tokens": 2, "special_tokens": "parse"}
    parsed = finished(dataclasses.replace(request, params=params))
    assert list(parsed.prompt_ids) == own
    assert parsed.literal_tokens == 0
    assert parsed.notes == (
        "The messages spell 1 of the template's own tokens; the model reads it as this token.",
    )


@pytest.mark.parametrize("reading", ["text", "parse"])
def test_a_recorded_run_replays_with_the_same_tokens(reading):
    trace = run(special_tokens=reading)
    again = finished(request_from_trace(trace))
    assert (again.prompt_ids, again.outputs) == (trace.prompt_ids, trace.outputs)
    assert again.config["special_tokens"] == reading


def test_another_models_score_reads_the_prompt_as_the_run_did():
    other = load("foreign-draft")
    for reading, tokens in (("parse", 1), ("text", 0)):
        trace = run(special_tokens=reading)
        assert score_trace(trace, other, load("storyteller")).recut
        assert run_ids(trace, other).count(0) == tokens


def run_ids(trace, other):
    return _retokenize(trace, other, load("storyteller"))[0]


@pytest.mark.nightly
@pytest.mark.parametrize(("reading", "form"), [("parse", "generate"), ("text", "pipeline")])
def test_exported_code_gives_the_same_tokens(reading, form):
    trace = run(special_tokens=reading)
    assert verify_export(trace, form=form).equal


def test_exported_code_says_how_the_prompt_is_read():
    text, parsed = run(special_tokens="text"), run()
    assert "split_special_tokens=True" in script_text(plan_export(text))
    assert "split_special_tokens" not in script_text(plan_export(parsed))
    short = "tokenizer_encode_kwargs={'split_special_tokens': True}"
    assert short in "".join(pipeline_files(text).values())
    assert "split_special_tokens" not in "".join(pipeline_files(parsed).values())


# A text that continues a run, and a text that is judged.
def branch(trace, text, **asked):
    """Continue a run after its second token with a typed text, and run the branch."""
    tokenizer = load("storyteller").tokenizer
    made = make_branch(branch_point(trace, 2), text=text, tokenizer=tokenizer, **asked)
    return finished(branch_request(trace, made)), list(made.parent.token_ids)


def test_a_branch_reads_its_text_as_its_run_does():
    plain = run("One day")
    child, added = branch(plain, f" the{END} cat")
    assert added.count(0) == 1
    assert (child.literal_tokens, child.config["special_tokens"]) == (0, "parse")
    assert child.notes == (
        f"The text you added spells 1 special token of the model (“{END}”); the model reads it as this token.",
    )
    for parent, asked in (
        (plain, {"special_tokens": "text"}),
        (run(special_tokens="text"), {}),
    ):
        child, added = branch(parent, f"{END}{END}", **asked)
        assert 0 not in added
        assert (child.literal_tokens, child.config["special_tokens"]) == (2, "text")
        assert child.notes[-1].endswith("; they are read as text.")
        assert "split_special_tokens" not in script_text(plan_export(child))
    child, _ = branch(plain, " the cat")
    assert (child.notes, child.config["special_tokens"]) == ((), None)


def test_a_branch_of_an_answer_and_of_a_public_page_reads_text(monkeypatch):
    asked = dataclasses.replace(prompt_request.SETTINGS, public=True)
    answer = finished(
        DecodeRequest("greedy", talker(), messages=said("bear"), params={"max_new_tokens": 4})
    )
    assert branch_point(answer, 2).special_tokens == "text"
    assert branch_point(run("One day"), 2).special_tokens == "parse"
    monkeypatch.setattr(prompt_request, "SETTINGS", asked)
    assert branch_point(run("One day"), 2).special_tokens == "text"


def test_a_branch_refuses_other_readings():
    with pytest.raises(ParameterError, match="one of text, parse"):
        branch(run("One day"), END, special_tokens="both")


def test_the_command_line_continues_with_a_special_token(tmp_path):
    first, second = str(tmp_path / "first.json"), str(tmp_path / "second.json")
    run_it = ["run", "greedy", "--prompt=One day", "--max-new-tokens=4", "--trace", first]
    assert main(run_it) == 0
    for asked, tokens in (([], 1), (["--set", "special_tokens=text"], 0)):
        fork = ["run", "--fork", first, "--at=2", f"--text={END}", *asked]
        assert main([*fork, "--trace", second]) == 0
        assert json_io.load(second).parent.token_ids.count(0) == tokens


@pytest.mark.parametrize("prompt", [None, "One day", f"One day{END}"])
def test_a_judged_text_is_read_as_asked_for(prompt):
    loaded = load("storyteller")
    text = f"{prompt or ''} there was{END} a little girl who played in the park"

    def read(**params):
        return detect_text(text, loaded, build_watermark_config(params), prompt=prompt)

    own, parsed, spelled = read(), read(special_tokens="parse"), read(special_tokens="text")
    assert own == parsed
    assert (parsed.ids.count(0), spelled.ids.count(0)) == (1, 0)
    assert loaded.tokenizer.decode(parsed.ids).endswith(
        f"was{END} a little girl who played in the park"
    )
    assert len(parsed.ids) < len(spelled.ids)
    # The end of the text is where the model ends it.
    assert parsed.verdict.num_tokens_scored < spelled.verdict.num_tokens_scored


# Words.
BIASED = {"sequence_bias": [[END, 100.0]]}


def first_ids(**params):
    return run("One day", **params).outputs[0].token_ids


def test_a_bias_on_a_tokens_name_is_on_the_token():
    assert first_ids(**BIASED) == (0,)


@pytest.mark.parametrize("reading", ["text", "parse"])
@pytest.mark.parametrize(
    "given",
    [
        {"bad_words_ids": [END], "eos_token_id": [5]},
        {"suppress_tokens": [END]},
        {"begin_suppress_tokens": END},
    ],
    ids=str,
)
def test_a_token_that_is_banned_by_name_is_not_written(given, reading):
    assert first_ids(**BIASED, **given, special_tokens=reading)[0] != 0


def test_a_ban_covers_the_token_and_its_letters():
    trace = run("One day", bad_words_ids=[END])
    banned = trace.config["bad_words_ids"]
    assert banned[0] == [0]
    assert list(load("storyteller").tokenizer(END, split_special_tokens=True).input_ids) in banned
    assert f"[0] '{END}'" in trace.notes[0]
    assert "suppress_tokens bans it" in trace.notes[1]
    assert first_ids(bad_words_ids=[END], **BIASED) == (0,), "transformers bans end tokens now"


def test_a_forced_word_is_the_token():
    trace = run("One day", "beam_search", num_beams=2, force_words_ids=[END], max_new_tokens=6)
    assert 0 in trace.outputs[0].token_ids
    assert trace.config["force_words_ids"] == [[0]]


def test_allowed_continuations_may_be_the_token():
    assert first_ids(prefix_allowed_tokens_fn=[END]) == (0,)


@pytest.mark.parametrize("strategy", ["greedy", "prompt_lookup", "speculative", "beam_search"])
def test_a_stop_string_may_be_the_token(strategy):
    trace = run("One day", strategy, stop_strings=[END], eos_token_id=[5], **BIASED)
    assert trace.outputs[0].token_ids == (0,)
    assert trace.outputs[0].finish_reason == "stop"


def test_end_tokens_are_named_by_their_spelling():
    first = first_ids()[0]
    piece = load("storyteller").pieces[first]
    trace = run("One day", eos_token_id=piece)
    assert trace.outputs[0].token_ids == (first,)
    assert trace.eos_token_ids == (first,)
    assert run("One day", eos_token_id=[END, piece]).eos_token_ids == (0, first)


@pytest.mark.parametrize(
    ("name", "place"), [("forced_eos_token_id", -1), ("forced_bos_token_id", None)]
)
def test_a_forced_token_is_named_by_its_spelling(name, place):
    piece = load("storyteller").pieces[first_ids()[0]]
    for text, token in ((END, 0), (piece, first_ids()[0])):
        trace = run("One day", **{name: text})
        assert trace.config[name] == token
        assert trace.outputs == run("One day", **{name: token}).outputs
        if place:
            assert trace.outputs[0].token_ids[place] == token
    request = DecodeRequest("greedy", "storyteller", "a", params={name: "a girl"})
    assert "exactly one token" in str(failed(request))
    request = DecodeRequest(
        "greedy", "storyteller", "a", params={name: END, "suppress_tokens": [0]}
    )
    assert "one of suppress_tokens" in str(failed(request))


def test_a_spelling_of_several_tokens_is_no_token():
    request = DecodeRequest("greedy", "storyteller", "a", params={"suppress_tokens": ["a girl"]})
    assert "exactly one token" in str(failed(request))


def test_special_tokens_inside_a_longer_word_are_read_as_the_prompt_is():
    tokenizer = load("storyteller").tokenizer
    inside = encode_word(tokenizer, f"bear{END} ran", None, "parse")
    assert inside.count(0) == 1
    assert tokenizer.decode(inside) == f"bear{END} ran"
    assert 0 not in encode_word(tokenizer, f"bear{END} ran", None, "text")
    # A whole name is the token in either case.
    assert encode_word(tokenizer, END, None, "text") == [0]


def test_a_negative_prompt_is_read_as_the_prompt_is():
    for reading, tokens in (("parse", 1), ("text", 0)):
        given = {"negative_prompt": PROMPT, "guidance_scale": 1.5, "special_tokens": reading}
        assert run("One day", **given).config["negative_prompt_ids"].count(0) == tokens


def test_settings_in_a_file_keep_the_choice():
    text = format_config("greedy", {"special_tokens": "parse", "suppress_tokens": [END]})
    found = parse_config(text, "greedy").params
    assert (found["special_tokens"], found["suppress_tokens"]) == ("parse", (END,))
    assert "special_tokens" not in {*json.loads(text)}
