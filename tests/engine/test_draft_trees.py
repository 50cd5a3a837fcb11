"""Draft trees: how they grow, that they change no text, and which models can read them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from engine import DecodeRequest, load
from engine.lessons import library
from engine.loops.drafting.draft_tree import ROOT, DraftTree, grow_dynamic_tree, grow_static_tree
from engine.loops.drafting.tree_forward import TreeForward, find_tree_obstacle
from engine.strategies import STRATEGIES
from engine.strategies.compatibility import incompatibility_reason
from tests.helpers.models import tiny_llama
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean
from tests.helpers.zoo import KIND_NAMES, zoo_draft, zoo_model

pytestmark = pytest.mark.filterwarnings("ignore")

PROMPT = [5, 9, 11, 4, 5, 9, 11, 33, 40, 5, 9]
READERS = frozenset(
    (
        *(
            "Llama",
            "Apertus",
            "Arcee",
            "BioGpt",
            "CodeGen",
            "Cohere",
            "DiffLlama",
            "Gemma",
            "Glm4",
            "GPT2",
        ),
        *(
            "GPTBigCode",
            "GPTJ",
            "GPTNeoX",
            "Granite",
            "Nemotron",
            "Olmo2",
            "OPT",
            "Persimmon",
            "Phi",
            "Qwen2",
        ),
        *(
            "Qwen3",
            "SmolLM3",
            "StableLm",
            "XGLM",
            "DeepseekV3",
            "GraniteMoe",
            "JetMoe",
            "Olmoe",
            "Qwen2Moe",
        ),
        "Qwen3Moe",
    )
)
"""Architectures that read a tree as they read a text."""
SHAPES = (
    {},
    {"draft_tree_depth": 3, "draft_tree_top_k": 5, "draft_tree_nodes": 30},
    {"draft_tree_widths": "2, 2, 1, 1"},
)
STORY = "A brave little mouse lived under the old tree. One morning"


def drafted(model, assistant, seed=0, **params):
    """Return a request with a draft tree."""
    inputs = {"prompt": STORY} if model == "storyteller" else {"input_ids": PROMPT}
    params = {"max_new_tokens": 24, "draft_tree": True, **params}
    return DecodeRequest(
        "speculative", model, params=params, seed=seed, assistant=assistant, **inputs
    )


def plain(request):
    """Return the same text without a draft, as greedy search or sampling writes it."""
    sampled = request.params.get("do_sample")
    inputs = {"prompt": request.prompt} if request.prompt else {"input_ids": request.input_ids}
    params = {"max_new_tokens": 24}
    strategy = "sampling" if sampled else "greedy"
    return finished(
        DecodeRequest(strategy, request.model, params=params, seed=request.seed, **inputs)
    )


@pytest.mark.by_day(5)
@pytest.mark.parametrize("name", KIND_NAMES)
def test_a_tree_changes_no_text_or_is_refused(name):
    target, draft = zoo_model(name), zoo_draft(name)
    request = drafted(target, draft)
    if incompatibility_reason(STRATEGIES["speculative"], target, draft) is not None:
        return
    if name not in READERS:
        assert clean(str(failed(request))).startswith(
            f"draft_tree = true: {name} cannot read a tree, as "
        )
        return
    for shape in SHAPES:
        for sampled in (False, True):
            run = drafted(target, draft, 3, do_sample=sampled, **shape)
            trace = finished(run)
            assert trace.outputs[0].token_ids == plain(run).outputs[0].token_ids
            if not sampled:
                assert trace.steps[-1].detail.report.parting is None


@pytest.mark.nightly
@pytest.mark.parametrize("sampled", [False, True])
def test_the_record_of_a_round_is_what_both_models_say(sampled):
    trace = finished(
        drafted("storyteller", "storyteller-draft", 4, do_sample=sampled, temperature=1.0, top_k=0)
    )
    loaded = [load(name) for name in ("storyteller", "storyteller-draft")]
    seen = 0
    for step in trace.steps[1:6]:
        text = [*trace.prompt_ids, *trace.outputs[0].token_ids[: step.keep]]
        tree, path = step.detail.tree, []
        for node in tree:
            before = [] if node.parent is None else branch(tree, node.parent)
            ids = torch.tensor([[*text, *(tree[i].token_id for i in before)]])
            p, q = (m.model(input_ids=ids).logits[0, -1].softmax(-1)[node.token_id] for m in loaded)
            assert math.isclose(node.q, q, rel_tol=1e-3)
            assert node.p is None or math.isclose(node.p, p, rel_tol=1e-3, abs_tol=1e-7)
            assert (node.p is None) == (node.status == "unverified")
            seen += 1
        path = [node.token_id for node in tree if node.status == "accepted"]
        assert [*path, step.detail.final_token_id][: len(step.emit)] == list(step.emit)
        assert [t.token_id for t in step.detail.tokens if t.status == "accepted"] == path
    assert seen >= 40


def branch(tree, node):
    """Return the nodes from the text to a node."""
    parent = tree[node].parent
    return [*([] if parent is None else branch(tree, parent)), node]


def table_reader(table):
    """Return what reads a level of a tree with the log-probabilities of a (vocab, vocab) table."""

    def read(tree: DraftTree, level):
        last = [0 if node == ROOT else tree.tokens[node] for node in level]
        return [torch.tensor(table[token]).log() for token in last]

    return read


TABLE = [[0.0, 0.6, 0.4], [0.1, 0.2, 0.7], [0.5, 0.3, 0.2]]


def test_the_most_probable_paths_stay():
    tree = grow_dynamic_tree(table_reader(TABLE), frozenset(), depth=2, top_k=2, nodes=4)
    # .6, .4, then .6 × .7 and .6 × .2 after the first, .4 × .5 and .4 × .3 after the second.
    assert tree.tokens == [1, 2, 2, 0]
    assert tree.parents == [ROOT, ROOT, 0, 1]
    assert [round(math.exp(total), 6) for total in tree.totals] == [0.6, 0.4, 0.42, 0.2]


def test_nothing_follows_a_token_that_ends_the_text():
    tree = grow_dynamic_tree(table_reader(TABLE), frozenset({1}), depth=2, top_k=2, nodes=9)
    assert all(tree.tokens[parent] != 1 for parent in tree.parents if parent != ROOT)


def test_a_fixed_tree_has_its_widths():
    tree = grow_static_tree(table_reader(TABLE), frozenset(), [2, 1, 2])
    assert [len(tree.path(node)) for node in range(len(tree))] == [1, 1, 2, 2, 3, 3, 3, 3]
    # A token without a chance is no guess.
    assert len(grow_static_tree(table_reader(TABLE), frozenset(), [3])) == 2


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_mask_of_bools_would_be_wrong_in_eager_attention(attention, monkeypatch):
    model = tiny_llama(2, seed=1)
    model.set_attn_implementation(attention)
    assert find_tree_obstacle(model) == ""
    right = TreeForward._mask
    monkeypatch.setattr(TreeForward, "_mask", lambda self, paths: right(self, paths) == 0)
    wrong = "it reads a branch in another way than a text"
    assert find_tree_obstacle(model) == (wrong if attention == "eager" else "")


def test_drafts_in_a_line_are_run_to_compare_with():
    trace = finished(drafted("storyteller", "storyteller-draft", plain_run=True))
    report = trace.steps[-1].detail.report
    assert [line.length for line in report.lines] == [6, 12]
    assert {line.tokens for line in report.lines} == {24}
    # As deep a line has one guess for each place, the tree several.
    assert report.lines[0].passes >= len(trace.steps) - 1
    assert report.plain_identical


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"draft_tree_widths": "2, x"}, "draft_tree_widths"),
        ({"draft_tree_widths": "0"}, "draft_tree_widths"),
        ({"draft_tree_widths": "9, 9"}, "at most 64 guesses"),
        ({"draft_tree_nodes": 65}, "from 1 to 64"),
        ({"assistant_ensemble_weight": 0.5}, "assistant_ensemble_weight"),
    ],
)
def test_a_bad_shape_is_one_sentence(params, said):
    assert said in clean(str(failed(drafted("storyteller", "storyteller-draft", **params))))


DRAWS = 20_000
OTHERS = np.array([0.5, 0.3, 0.2])


def keep_likeliest_by_quotient(p, q, rng):
    """Draw a token as a line of drawn guesses would, from guesses that are always the likeliest two."""
    p, q = p.copy(), q.copy()
    for guess in np.argsort(-q)[:2]:
        if rng.random() < p[guess] / q[guess]:
            return guess
        p = np.maximum(p - q, 0)
        p, q[guess] = p / p.sum(), 0
        q /= q.sum()
    return rng.choice(len(p), p=p)


def test_the_rule_of_a_line_would_bend_the_chances_in_a_tree_as_the_lesson_says():
    lesson = library.open_lesson(library.find_lesson_file("drafting"))
    first = lesson.traces["tree"].steps[5].detail.tree[0]
    # Only the first guess matters to its own count: the others share what is left.
    p, q = (np.array([one, *((1 - one) * OTHERS)]) for one in (first.p, first.q))
    rng = np.random.default_rng(0)
    kept = [keep_likeliest_by_quotient(p, q, rng) for _ in range(DRAWS)]
    followed = rng.choice(len(p), DRAWS, p=p)
    for drawn, chance in ((kept, first.p / first.q), (followed, first.p)):
        spread = math.sqrt(DRAWS * chance * (1 - chance))
        assert abs(np.count_nonzero(np.equal(drawn, 0)) - DRAWS * chance) < 4 * spread
    assert first.p / first.q > first.p + 0.1
