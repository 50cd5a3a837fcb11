"""The captioner: its training on a handful of scenes, and what was shipped, with plain transformers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoProcessor, AutoTokenizer, VisionEncoderDecoderModel

from engine.sources.catalogue import CATALOGUE, MODEL_DIR, drafts_for
from training import captioner_examples, evaluate_captioner, export, train_captioner
from training.captions import captions
from training.evaluate_captioner import Captioner, ScoredCaption, mistakes
from training.scenes import HELD_OUT_FROM, SIDE, drawn, owners, scene

ROOT = Path(__file__).parents[2]
FOLDER = MODEL_DIR / "captioner"
MEDIA = ROOT / "assets" / "media"
TINY = train_captioner.Shape(32, 2, 1, 48, 1, 48)
HELD_OUT = 60
MOST_BYTES = 5_000_000
MOST_PICTURE_BYTES = 3_000


@pytest.fixture(scope="module")
def words():
    return train_captioner.train_tokenizer(scenes=400)


@pytest.fixture(scope="module")
def shipped():
    return Captioner()


def trainer(words, **settings):
    return train_captioner.CaptionTrainer(words, size=3, shape=TINY, **settings)


def copied(state):
    return torch.utils._pytree.tree_map(lambda x: x.clone() if torch.is_tensor(x) else x, state)


def test_two_steps_from_one_seed_are_the_same_steps(words):
    one, other = trainer(words), trainer(words)
    assert [one.train_step(0.1) for _ in range(2)] == [other.train_step(0.1) for _ in range(2)]
    for name, value in one.learner.state_dict().items():
        assert torch.equal(value, other.learner.state_dict()[name]), name


def test_a_resumed_run_is_the_same_run(words):
    straight = trainer(words)
    losses = [straight.train_step(0.5) for _ in range(5)]
    first = trainer(words)
    for _ in range(3):
        first.train_step(0.5)
    second = trainer(words)
    second.resume(copied(first.state()))
    assert [second.train_step(0.5) for _ in range(2)] == losses[3:]
    assert second.seen == 15


@pytest.mark.nightly
def test_training_learns(words):
    made = trainer(words)
    fixed = train_captioner.batch(range(3), words)
    losses = [made.train_step(0.0, fixed) for _ in range(120)]
    assert losses[-1][0] < losses[0][0] / 2
    assert losses[-1][1] < losses[0][1] / 2


def test_held_out_scenes_are_never_trained_on(words):
    made = trainer(words)
    made.seen = HELD_OUT_FROM - 2
    assert list(made.batches()) == []
    made.seen = HELD_OUT_FROM - 3
    assert len(list(made.batches())) == 1


def test_captions_end_and_describe_their_own_picture(words):
    x, ids, labels = train_captioner.batch(range(7, 10), words)
    assert x.shape == (3, 3, SIDE, SIDE)
    assert (x.min() >= -1, x.max() <= 1) == (True, True)
    assert labels.shape == (3, 6, (SIDE // train_captioner.PATCH) ** 2)
    assert len(ids) == 3 * train_captioner.TELLINGS
    for i, row in enumerate(ids.tolist()):
        kept = [token for token in row if token != train_captioner.IGNORED]
        assert kept[-1] == train_captioner.EOS
        assert words.decode(kept[:-1]) in captions(scene(7 + i // train_captioner.TELLINGS))


def test_labels_of_patches_are_what_is_drawn_there():
    s = next(s for s in map(scene, range(99)) if s.kind == "pair" and s.ambiguous is None)
    shapes, colours, sizes, counts, places, relations = train_captioner.patch_labels(s)
    first = s.groups[0]
    patch = train_captioner.PATCH
    x, y = int(first.things[0].x) // patch, int(first.things[0].y) // patch
    here = y * (SIDE // patch) + x
    assert train_captioner.SHAPES[shapes[here] - 1] == first.things[0].shape
    assert list(train_captioner.COLOURS)[colours[here] - 1] == first.colours[0][0]
    assert train_captioner.SIZES[sizes[here] - 1] == first.sizes[0][0]
    assert (counts[here], places[here]) == (1, 1)
    assert set(relations) == {0, {"left": 1, "above": 2}[s.relations[0][0]]}
    seen = owners(s)
    for i, label in enumerate(shapes):
        row, column = divmod(i, SIDE // patch)
        part = seen[row * patch : (row + 1) * patch, column * patch : (column + 1) * patch]
        assert (label > 0) <= part.any()


def test_the_pixels_of_training_are_the_image_processors():
    scenes = [scene(seed) for seed in range(4)]
    made = export.image_processor()([drawn(s) for s in scenes], return_tensors="pt").pixel_values
    assert torch.allclose(made, train_captioner.pixels(scenes), atol=1e-5)


def test_export_loads_with_plain_transformers(words, tmp_path):
    model = train_captioner.build(words.get_vocab_size(), TINY)
    export.export(
        model, train_captioner.wrap(words), tmp_path, torch.bfloat16, eos_token_id=2, pad_token_id=0
    )
    loaded, report = VisionEncoderDecoderModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert next(loaded.parameters()).dtype == torch.bfloat16
    text = AutoTokenizer.from_pretrained(tmp_path)
    ids = text("A big red circle.")["input_ids"]
    assert text.convert_ids_to_tokens(ids) == ["A", "Ġbig", "Ġred", "Ġcircle", "."]
    assert text.decode(ids) == "A big red circle."


def test_mistakes_by_hand():
    s = next(s for s in map(scene, range(400)) if s.kind == "pair" and s.ambiguous is None)
    right = next(c for c in captions(s) if " and " not in c and not c.startswith("There"))
    (relation, _), (one, other) = s.relations[0], s.groups
    far = {"left": "above", "above": "to the left of"}[relation]
    colour = next(c for c in train_captioner.COLOURS if c not in right)
    assert mistakes(s, f"A {one.colours[0][0]} {one.nouns[0][0]}.")[0][0] == "number of groups"
    a, b = (f"{g.colours[0][0]} {g.nouns[0][0]}" for g in (one, other))
    assert [m[0] for m in mistakes(s, f"A {a} {far} a {b}.")] == ["relation"]
    near = {"left": "to the left of", "above": "above"}[relation]
    changed = f"A {colour} {one.nouns[0][0]} {near} two {b}s."
    assert {m[0] for m in mistakes(s, changed)} == {"colour", "count"}
    turned = f"A {b} {near} a {a}."
    assert ("relation", relation, f"{relation}, turned") in mistakes(s, turned)


def test_what_is_shipped_is_small():
    files = [path for path in FOLDER.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES
    assert {path.name for path in files} >= {"config.json", "generation_config.json", "README.md",
                                             "preprocessor_config.json", "model.safetensors"}  # fmt: skip


def test_automatic_classes_load_the_folder():
    assert AutoImageProcessor.from_pretrained(FOLDER).size["height"] == SIDE
    assert AutoProcessor.from_pretrained(FOLDER) is not None
    text = AutoTokenizer.from_pretrained(FOLDER)
    ids = (text.pad_token_id, text.bos_token_id, text.eos_token_id)
    assert ids == (train_captioner.PAD, train_captioner.BOS, train_captioner.EOS)
    assert text.decode(text("Two small pink stars.")["input_ids"]) == "Two small pink stars."


def test_held_out_scenes_are_described_right(shipped):
    scenes = [scene(seed) for seed in range(HELD_OUT_FROM, HELD_OUT_FROM + HELD_OUT)]
    told = shipped.tell(scenes, do_sample=False)
    right = sum(t.text in captions(s) for s, t in zip(scenes, told, strict=True))
    assert right >= 0.9 * HELD_OUT


def test_a_cache_changes_no_caption(shipped):
    scenes = [scene(seed) for seed in range(HELD_OUT_FROM, HELD_OUT_FROM + 8)]
    for beams in (1, 4):
        with_cache, without = (
            [t.text for t in shipped.tell(scenes, num_beams=beams, do_sample=False, use_cache=use)]
            for use in (True, False)
        )
        assert with_cache == without


def documented() -> list[tuple[int, str, str]]:
    """Return (seed, greedy caption, beams' caption) of the page's table of scenes."""
    rows = re.findall(
        r"^\| (\d{10,}) \| (.+?) \(.+?\) \| (.+?) \(", evaluate_captioner.PAGE.read_text(), re.M
    )
    return [(int(seed), greedy, beams) for seed, greedy, beams in rows]


def test_beams_still_beat_greedy_search_where_the_page_says_so(shipped):
    rows = documented()
    assert len(rows) >= 2
    scenes = [scene(seed) for seed, _, _ in rows]
    greedy = shipped.tell(scenes, do_sample=False)
    beams = shipped.tell(scenes, do_sample=False, num_beams=evaluate_captioner.BEAMS)
    for (seed, first, second), one, other in zip(rows, greedy, beams, strict=True):
        assert seed >= HELD_OUT_FROM
        assert (one.text, other.text) == (first, second)
        assert other.log_probability > one.log_probability + 0.05


def test_a_captions_log_probability_is_that_of_its_tokens(shipped):
    s = scene(HELD_OUT_FROM)
    (told,) = shipped.tell([s], do_sample=False)
    (scored,) = shipped.score([s], [told.text])
    assert isinstance(scored, ScoredCaption)
    assert scored.log_probability == pytest.approx(told.log_probability, abs=1e-4)
    (worse,) = shipped.score([s], ["Four big black crosses."])
    assert worse.log_probability < told.log_probability - 3


def test_example_pictures_are_small_and_held_out_scenes():
    texts = json.loads((MEDIA / "examples.json").read_text("utf-8"))
    assert list(captioner_examples.EXAMPLES) == [f"scene-{i}" for i in range(1, 7)]
    for name, example in captioner_examples.EXAMPLES.items():
        assert texts[name] == {"title": example.title, "alt": example.alt}
        assert example.alt.endswith(".")
        path = MEDIA / f"{name}.png"
        assert path.stat().st_size < MOST_PICTURE_BYTES
        with Image.open(path) as image:
            shown = np.asarray(image.convert("RGB"))
        assert example.seed >= HELD_OUT_FROM
        assert np.array_equal(shown, np.asarray(drawn(scene(example.seed))))


def test_the_captioner_is_no_model_of_texts():
    entry = CATALOGUE["captioner"]
    assert (entry.role, entry.kind, entry.embedded, entry.available) == (
        "captions",
        "captions",
        True,
        True,
    )
    assert drafts_for("captioner", "any_tokenizer") == []
    assert drafts_for("captioner", "same_tokenizer") == []
    for target in CATALOGUE:
        for tokenizer in ("same_tokenizer", "any_tokenizer"):
            assert entry not in drafts_for(target, tokenizer)
