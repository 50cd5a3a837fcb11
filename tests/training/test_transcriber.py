"""The transcriber: its training on made-up clips, what counts as misheard, and what was shipped."""

from __future__ import annotations

import json
import lzma

import numpy as np
import pytest
import soundfile
import torch
from transformers import AutoFeatureExtractor, AutoTokenizer, WhisperForConditionalGeneration

from engine import DecodeRequest
from engine.errors import ParameterError
from engine.media.examples import EXAMPLES_FOLDER as MEDIA
from engine.sources.catalogue import CATALOGUE, drafts_for
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean
from training import corpus, evaluate_transcriber, export, speech, train_transcriber
from training.evaluate_transcriber import FOLDER, PAGE, JudgedClip, ScoredTranscript, Transcriber
from training.speech import FRAMES, MELS, RATE, SECONDS, Clip, Voice
from training.transcriber_examples import EXAMPLES

TINY = train_transcriber.TranscriberShape(16, 2, 1, 1, 24)
WORDS = ("once", "there", "was", "a", "frog", "lily's")
MOST_BYTES = 1_500_000
MOST_EXAMPLE_BYTES = 20_000
MOST_WRONG = 0.1


@pytest.fixture(scope="module")
def clips():
    rng = np.random.default_rng(0)
    tokenizer = train_transcriber.word_tokenizer(WORDS)
    features = rng.normal(size=(8, MELS, FRAMES)).astype(np.float16)
    words = [[4 + i % 6, 4 + i % 5, train_transcriber.EOS] for i in range(8)]
    sounds = [[1 + i % 3, 2, 1] for i in range(8)]
    return train_transcriber.Clips(tokenizer, features, words, sounds, 3)


@pytest.fixture(scope="module")
def shipped():
    return Transcriber()


def trainer(clips):
    return train_transcriber.TranscriberTrainer(clips, size=3, shape=TINY)


def steps(trainer, number):
    made = trainer.batches()
    return [trainer.train_step(0.5, next(made)) for _ in range(number)]


def copied(state):
    return torch.utils._pytree.tree_map(lambda x: x.clone() if torch.is_tensor(x) else x, state)


def heard(name):
    samples, rate = soundfile.read(MEDIA / f"{name}.flac", dtype="float32")
    assert rate == RATE
    return samples


def test_a_resumed_run_is_the_same_run(clips):
    losses = steps(trainer(clips), 5)
    first = trainer(clips)
    assert steps(first, 3) == losses[:3]
    second = trainer(clips)
    second.resume(copied(first.state()))
    assert steps(second, 2) == losses[3:]


@pytest.mark.nightly
def test_training_learns(clips):
    made, batch = trainer(clips), clips.batch([0, 1, 2])
    losses = [made.train_step(0.0, batch) for _ in range(150)]
    assert losses[-1][0] < losses[0][0] / 2
    assert losses[-1][1] < losses[0][1] / 2


def test_each_clip_comes_once_before_any_comes_again(clips):
    made = train_transcriber.TranscriberTrainer(clips, size=4, shape=TINY).batches()
    for _ in range(2):
        seen = torch.cat([next(made).features for _ in range(2)])
        assert sorted(seen.sum((1, 2)).tolist()) == pytest.approx(
            sorted(clips.features.astype(np.float32).sum((1, 2)).tolist()), abs=1e-2
        )


def test_changed_clips_are_still_clips():
    torch.manual_seed(0)
    features = torch.linspace(-0.5, 1.5, MELS * FRAMES).view(1, MELS, FRAMES).repeat(5, 1, 1)
    before = features.clone()
    changed = train_transcriber.augmented(features)
    assert torch.equal(features, before)
    assert changed.shape == features.shape
    assert changed.isfinite().all()
    assert not torch.equal(changed[0], changed[1])
    hidden = (changed == 0).float().mean((1, 2))
    assert ((hidden > 0) & (hidden < 0.3)).all()


def test_a_word_is_a_token_and_others_are_unknown(tmp_path):
    train_transcriber.wrap(train_transcriber.word_tokenizer(WORDS)).save_pretrained(tmp_path)
    text = AutoTokenizer.from_pretrained(tmp_path)
    ids = text("once there was lily's dragon")["input_ids"]
    assert ids == [4, 5, 6, 9, train_transcriber.UNKNOWN]
    assert text.decode(ids[:4]) == "once there was lily's"


@pytest.fixture
def stories(tmp_path):
    """A corpus of one word more than is known, said often enough for the others to be known."""
    known = [f"{a}{b}" for a in "abcdefghijklmnopqrst" for b in "abcdefghijklmno"]
    lines = [f"{' '.join(known[i : i + 5]).capitalize()}. " * 2 for i in range(0, speech.WORDS, 5)]
    lines.append("Aa ab ac dragon ba bb bc bd.")
    for name in corpus.STORIES:
        (tmp_path / name).write_bytes(lzma.compress("".join(lines).encode()))
    for name in ("gutenberg_children", "facts_sentences", "storybooks_ccby"):
        (tmp_path / f"{name}.txt.xz").write_bytes(lzma.compress(b"x"))
    return tmp_path


def test_sentences_are_of_known_words_and_some_are_held_out(stories):
    texts = speech.texts_of(stories)
    assert len(texts.words) == speech.WORDS
    assert "dragon" not in texts.words
    assert texts.fragments == ["aa ab ac", "ba bb bc bd"]
    assert len(texts.sentences) + len(texts.held_out) == speech.WORDS // 5
    assert texts.held_out
    assert all(map(corpus.is_held_out, texts.held_out))
    assert not any(map(corpus.is_held_out, texts.sentences))


def test_voices_are_trained_on_or_held_out():
    held_out = {*speech.HELD_OUT_VARIANTS, *speech.KINDRED_VARIANTS}
    assert not {*speech.VARIANTS} & held_out
    assert not {*speech.ACCENTS} & {*speech.HELD_OUT_ACCENTS}
    assert Voice("en-us", "f3").name == "en-us+f3"


def test_misheard_words_by_hand():
    edits = evaluate_transcriber.edits
    assert edits(["a", "red", "ball"], ["a", "red", "ball"]) == []
    assert edits(["a", "red", "ball"], ["a", "ball"]) == [("red", "")]
    assert edits(["a", "ball"], ["a", "big", "ball"]) == [("", "big")]
    assert edits(["see", "the", "sun"], ["sea", "the", "son"]) == [("see", "sea"), ("sun", "son")]
    assert len(edits(["a"], [])) == 1


def test_an_error_rate_is_per_word_said():
    voice = Voice("en", "m4")
    cases = [
        JudgedClip(Clip(said, voice, 0.0), {"greedy": ScoredTranscript(told, -1.0)})
        for said, told in (("a red ball", "a ball"), ("the sun", "the sun was up"))
    ]
    assert evaluate_transcriber.word_error_rate(cases, "greedy") == pytest.approx(3 / 5)


def test_what_is_shipped_is_small():
    files = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    assert sum(files.values()) <= MOST_BYTES
    assert {*files} >= {"config.json", "generation_config.json", "README.md", "tokenizer.json",
                        "preprocessor_config.json", "model.safetensors"}  # fmt: skip


def test_what_is_shipped_has_the_shape_of_the_script():
    model = WhisperForConditionalGeneration.from_pretrained(FOLDER)
    made = train_transcriber.build(model.config.vocab_size)
    shapes = [{n: v.shape for n, v in m.state_dict().items()} for m in (made, model)]
    assert shapes[0] == shapes[1]
    assert next(model.parameters()).dtype == torch.float16
    extractor = AutoFeatureExtractor.from_pretrained(FOLDER)
    assert extractor.to_dict() == speech.feature_extractor().to_dict()
    assert extractor.chunk_length == SECONDS


def test_the_exported_model_is_the_trained_one(clips, tmp_path):
    model = train_transcriber.build(clips.tokenizer.get_vocab_size(), TINY)
    wrapped = train_transcriber.wrap(clips.tokenizer)
    export.export(model, wrapped, tmp_path, eos_token_id=2, pad_token_id=0)
    loaded, report = WhisperForConditionalGeneration.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert torch.equal(loaded.proj_out.weight, model.proj_out.weight)


def test_the_page_tells_of_a_goal_that_was_reached():
    row = next(r for r in PAGE.read_text().splitlines() if r.startswith("| held-out voices, held"))
    greedy = row.split("|")[4]
    assert float(greedy.removesuffix(" % ")) <= 100 * MOST_WRONG


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_small_and_of_a_held_out_voice(name):
    example = EXAMPLES[name]
    assert example.voice.variant in speech.HELD_OUT_VARIANTS
    assert corpus.is_held_out(example.text)
    texts = json.loads((MEDIA / "examples.json").read_text("utf-8"))
    assert texts[name] == {"title": example.title, "alt": example.alt}
    assert example.text in example.alt.lower()
    assert (MEDIA / f"{name}.flac").stat().st_size <= MOST_EXAMPLE_BYTES
    assert len(heard(name)) <= SECONDS * RATE


def expected(name, beams):
    """Return what is heard in an example: what is said, but where greedy search is known to mishear it."""
    example = EXAMPLES[name]
    return example.text if beams > 1 or example.greedy is None else example.greedy


@pytest.mark.parametrize("beams", [1, 4])
def test_examples_are_written_down_word_for_word(shipped, beams):
    told = shipped.hear([heard(name) for name in EXAMPLES], num_beams=beams, do_sample=False)
    assert [t.text for t in told] == [expected(name, beams) for name in EXAMPLES]


def test_beams_find_a_likelier_transcript_where_greedy_search_mishears(shipped):
    (name,) = (name for name, example in EXAMPLES.items() if example.greedy)
    greedy, beams = (
        shipped.hear([heard(name)], num_beams=n, do_sample=False)[0].log_probability for n in (1, 4)
    )
    assert beams > greedy + 0.3


@pytest.mark.by_day("speech-1-beam_search", "speech-1-prompt_lookup", "speech-5-prompt_lookup")
@pytest.mark.parametrize("strategy", ["greedy", "beam_search", "prompt_lookup"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_engine_writes_what_generate_writes(shipped, name, strategy):
    beams = 4 if strategy == "beam_search" else 1
    params = {"num_beams": beams} if beams > 1 else {}
    trace = finished(DecodeRequest(strategy, "transcriber", params=params, audio=f"example:{name}"))
    (told,) = shipped.hear([heard(name)], do_sample=False, num_beams=beams)
    assert trace.outputs[0].text.strip() == told.text == expected(name, beams)
    assert trace.outputs[0].finish_reason == "eos"


def test_a_sound_behind_the_window_is_refused():
    sound = np.zeros(int(3.5 * RATE), np.float32)
    error = failed(DecodeRequest("greedy", "transcriber", audio=(sound, RATE)))
    assert isinstance(error, ParameterError)
    assert "3.5 seconds" in str(error)
    assert "transcriber hears up to 3 seconds" in str(error)
    clean(str(error))


def test_it_has_no_tokens_for_times_and_one_language():
    for told, words in (
        ({"return_timestamps": True}, "no tokens for times"),
        ({"language": "de"}, "one language alone"),
    ):
        request = DecodeRequest("greedy", "transcriber", audio="example:speech-1", speech=told)
        assert words in str(failed(request))


def test_the_transcriber_is_no_model_of_texts():
    entry = CATALOGUE["transcriber"]
    assert (entry.role, entry.kind, entry.needs) == ("speech", "speech", "audio")
    assert (entry.embedded, entry.available) == (True, True)
    for tokenizer in ("same_tokenizer", "any_tokenizer"):
        assert drafts_for("transcriber", tokenizer) == []
        for target in CATALOGUE:
            assert entry not in drafts_for(target, tokenizer)
