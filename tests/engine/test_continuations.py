"""What continues a text is read and cut as what continues it, whatever a tokenizer does with spaces."""

from __future__ import annotations

import itertools

import pytest
import torch

from engine import DecodeRequest, decode
from engine.analysis.fork import branch_point, make_branch
from engine.analysis.likelihood import has_same_vocabulary, score_trace
from engine.analysis.watermark_detection import build_watermark_config, detect_text, detect_trace
from engine.models.loading import LoadedModel
from engine.models.text import (
    Detokenizer,
    OutputDecoder,
    Pieces,
    encode_after,
    encode_inside,
    encode_pair,
)
from engine.trace.events import Finished, TextDelta
from tests.helpers.models import tiny_llama
from tests.helpers.runs import finished
from tests.helpers.tokenizers import KINDS, speaker_of, tokenizer_of

PROMPT = "the little bear saw a"
PROMPTS = (
    PROMPT,
    "the lit",
    "the ",
    "  the",
    "</s> the",
    "t",
    "naïve 日本",
    "the\nbear.",
    "the \ufffd",
)
SPACED = ("sentencepiece", "unigram")


def ids_of(tokenizer, text):
    return tokenizer(text, split_special_tokens=True)["input_ids"]


def written(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def sampled(loaded, prompt=PROMPT, seed=3):
    """A run that ends by its length; bytes drawn at random would be no characters."""
    vocab = loaded.tokenizer.get_vocab()
    single = [i for token, i in vocab.items() if token.startswith("<0x")]
    left_out = sorted([loaded.tokenizer.eos_token_id, *single])
    params = {"max_new_tokens": 12, "top_k": 0, "suppress_tokens": left_out}
    return DecodeRequest("sampling", loaded, prompt, params=params, seed=seed)


def perplexity(loaded, prompt_ids, new_ids):
    """Return what a plain forward over prompt and text says, token by token."""
    with torch.no_grad():
        logits = loaded.model(torch.tensor([[*prompt_ids, *new_ids]])).logits[0]
    logprobs = logits.double().log_softmax(-1)
    rows = range(len(prompt_ids) - 1, len(prompt_ids) + len(new_ids) - 1)
    own = [logprobs[row, token].item() for row, token in zip(rows, new_ids, strict=True)]
    return torch.tensor(own).mean().neg().exp().item()


@pytest.mark.by_day(3)
@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("kind", KINDS)
def test_prompt_and_text_read_as_the_model_wrote_them(kind, prompt):
    loaded = speaker_of(kind)
    shown, last = "", None
    for event in decode(sampled(loaded, prompt)):
        if isinstance(event, TextDelta):
            shown = shown[: event.keep_chars] + event.text
        last = event
    assert isinstance(last, Finished)
    trace, text = last.trace, last.trace.outputs[0].text
    whole = written(loaded.tokenizer, [*trace.prompt_ids, *trace.outputs[0].token_ids])
    start = written(loaded.tokenizer, trace.prompt_ids)
    assert shown == text
    assert text
    assert whole == (prompt if whole.startswith(prompt) else start) + text
    if prompt in ("the lit", PROMPT):
        assert prompt + text == whole


@pytest.mark.parametrize("kind", SPACED)
def test_the_first_space_is_kept(kind):
    tokenizer = tokenizer_of(kind)
    before, whole = ids_of(tokenizer, "the little"), ids_of(tokenizer, "the little girl ran")
    new = whole[len(before) :]
    assert tokenizer.decode(new) == "girl ran"
    assert OutputDecoder(tokenizer, before, "the little").text(new) == " girl ran"
    assert OutputDecoder(tokenizer, before).text(new) == " girl ran"
    assert OutputDecoder(tokenizer).text(whole) == "the little girl ran"
    pieces = Pieces(tokenizer)
    assert "".join(pieces[i] for i in new) == " girl ran"


def test_a_prompt_that_lost_its_last_space_gets_it_back():
    tokenizer = tokenizer_of("unigram")
    before, whole = ids_of(tokenizer, "the"), ids_of(tokenizer, "the bear")
    assert OutputDecoder(tokenizer, before, "the ").text(whole[len(before) :]) == "bear"


def test_special_tokens_of_a_prompt_have_no_text():
    tokenizer = tokenizer_of("sentencepiece")
    new = tokenizer("the bear ran", add_special_tokens=False)["input_ids"]
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    assert OutputDecoder(tokenizer, [bos]).text(new) == "the bear ran"
    assert OutputDecoder(tokenizer, [bos, *new, eos, bos]).text(new) == " the bear ran"
    assert OutputDecoder(tokenizer, new).text([*new, eos]) == " the bear ran"


@pytest.mark.parametrize("text", ["日本語", "a 👩‍👩‍👧 b", "naïve café"])
def test_bytes_of_a_character_are_shown_when_it_is_whole(text):
    tokenizer = tokenizer_of("sentencepiece")
    text, before = " " + text, ids_of(tokenizer, "the")
    ids = ids_of(tokenizer, "the" + text)[len(before) :]
    running, shown = Detokenizer(OutputDecoder(tokenizer, before, "the")), ""
    for n in range(1, len(ids) + 1):
        delta = running.update(ids[:n])
        if delta:
            assert delta[0] == len(shown), "nothing that was shown is taken back"
            shown += delta[1]
        assert text.startswith(shown)
    assert shown == text
    # Cut within a character the ones before it stay, and one sign stands for the rest.
    half = ids_of(tokenizer, "the 日本")[:-1]
    assert OutputDecoder(tokenizer, before, "the").text(half[len(before) :]) == " 日\ufffd"
    # A prompt may end there, too.
    rest = ids_of(tokenizer, "the 日本 b")[len(half) :]
    assert OutputDecoder(tokenizer, half).text(rest) == "本 b"


def test_a_byte_that_is_a_character_of_its_own_is_shown_as_one():
    tokenizer = tokenizer_of("sentencepiece")
    pieces, of = Pieces(tokenizer), tokenizer.convert_tokens_to_ids
    assert pieces[of("<0x0A>")] == "\n"
    assert pieces[of("<0xE6>")] == "<0xE6>"
    assert pieces[of("<0x61>")] == "<0x61>", "the vocabulary has a token for the letter"


def test_a_decoder_that_puts_spaces_between_words_has_pieces_with_them():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["[UNK]", "the", "play", "##ing", "dog", "."]
    raw = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="[UNK]", clean_up_tokenization_spaces=True
    )
    ids = ids_of(tokenizer, "the playing dog.")
    pieces = Pieces(tokenizer)
    assert [pieces[i] for i in ids[1:]] == [" play", "ing", " dog", "."]
    assert OutputDecoder(tokenizer, ids[:1], "the").text(ids[1:]) == " playing dog."


@pytest.mark.parametrize("judge", KINDS)
@pytest.mark.parametrize("writer", KINDS)
def test_a_text_is_judged_as_a_plain_forward_over_prompt_and_text_does(writer, judge):
    loaded, base = speaker_of(writer), speaker_of(judge, seed=2)
    trace = finished(sampled(loaded))
    scores = score_trace(trace, base, loaded)
    prompt, text = trace.prompt_ids, trace.outputs[0].token_ids
    assert scores.recut == (writer != judge)
    if scores.recut:
        whole = ids_of(base.tokenizer, trace.prompt + trace.outputs[0].text)
        pairs = zip(ids_of(base.tokenizer, trace.prompt), whole, strict=False)
        prompt = [a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)]
        assert len(prompt) >= 4
        text = whole[len(prompt) :]
    assert scores.token_ids == tuple(text)
    assert scores.perplexity == pytest.approx(perplexity(base, prompt, text), rel=1e-4)


def test_a_token_across_the_border_belongs_to_the_text():
    tokenizer = tokenizer_of("sentencepiece")
    whole = ids_of(tokenizer, "the little bear")
    before, after = encode_pair(tokenizer, "the lit", "tle bear")
    assert [*before, *after] == whole
    assert tokenizer.convert_ids_to_tokens(after) == ["▁little", "▁bear"]
    assert before[0] == tokenizer.bos_token_id
    assert encode_pair(tokenizer, "", "the bear")[1] == whole[1:2] + whole[-1:]


def test_ids_are_kept_where_only_the_padding_of_the_vocabulary_differs():
    small = speaker_of("sentencepiece")
    size = len(small.tokenizer)
    padded = LoadedModel(tiny_llama(2, vocab_size=size + 6, seed=2), small.tokenizer, "padded")
    assert has_same_vocabulary(small, padded)
    trace = finished(sampled(small))
    scores = score_trace(trace, padded, small)
    assert not scores.recut
    assert scores.token_ids == trace.outputs[0].token_ids


def test_a_branch_is_judged_by_another_tokenizer_too():
    loaded, base = speaker_of("sentencepiece"), speaker_of("byte_level", seed=2)
    trace = finished(DecodeRequest("greedy", loaded, input_ids=ids_of(loaded.tokenizer, PROMPT)))
    typed = finished(DecodeRequest("greedy", loaded, PROMPT))
    assert score_trace(trace, base, loaded) == score_trace(typed, base, loaded)


@pytest.mark.parametrize("text", [" and the bear", "ar", ", and", "!", " Lily", "\nthe"])
@pytest.mark.parametrize("kind", KINDS)
def test_typed_text_is_cut_at_its_place(kind, text):
    loaded = speaker_of(kind)
    trace = finished(sampled(loaded))
    place = branch_point(trace, 4)
    made = make_branch(place, text=text, tokenizer=loaded.tokenizer)
    before = [*trace.prompt_ids, *place.kept_ids]
    assert list(made.input_ids[: len(before)]) == before
    if "\n" not in text or kind != "unigram":  # it has no token for a new line
        assert written(loaded.tokenizer, made.input_ids) == written(loaded.tokenizer, before) + text
    spaces = [
        t for t in loaded.tokenizer.convert_ids_to_tokens(made.parent.token_ids) if t in ("▁", " ")
    ]
    assert text != " and the bear" or kind == "unigram" or not spaces


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_a_parameter_are_those_the_model_writes(kind):
    tokenizer = tokenizer_of(kind)
    inside = ids_of(tokenizer, "the bear ran")[len(ids_of(tokenizer, "the")) :]
    assert encode_inside(tokenizer, " bear ran") == inside
    assert encode_after(tokenizer, "the", " bear ran") == inside
    joined = encode_inside(tokenizer, "bear")
    assert written(tokenizer, [*ids_of(tokenizer, "x."), *joined]).endswith(".bear")


@pytest.mark.parametrize("kind", KINDS)
def test_a_marked_text_is_found_again_from_its_text(kind):
    loaded = speaker_of(kind)
    params = {"max_new_tokens": 40, "suppress_tokens": [loaded.tokenizer.eos_token_id]}
    base = finished(DecodeRequest("watermark", loaded, PROMPT, params=params, seed=5))
    # Random weights write what no tokenizer would cut alike, so a text is taken that it cuts.
    text = " the little bird saw the red ball and ran to the old tree in the sun"
    ids = encode_after(loaded.tokenizer, PROMPT, text)
    mark = build_watermark_config({})
    for given, prompt in ((PROMPT + text, PROMPT), (text, PROMPT), (text, None)):
        assert list(detect_text(given, loaded, mark, prompt=prompt).ids) == ids
    assert detect_trace(base).ids == base.outputs[0].token_ids
