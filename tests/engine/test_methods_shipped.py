"""The methods and templates that come along: what they declare, and that they do the same shut in and outside."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from functools import partial

import pytest
import torch

from engine import DecodeRequest
from engine.models.loading import load
from engine.sandbox.folder import ENTRY, README, read_method
from engine.trace.records import replay_ids
from tests.helpers.method_processes import shared_processes
from tests.helpers.runs import finished
from tests.helpers.shipped_methods import (
    END,
    FOLDERS,
    LIKELY,
    NEW,
    ONE_ROW,
    REFUSED,
    ROWS,
    RUNS,
    STOPPED_AFTER,
    TAU,
    ids,
    ran,
    text_of,
)

TABLE = re.compile(r"^\| `(\w+)` \| (\w+) \| (\S+) \| .+ \|$", re.MULTILINE)
SHARED = ("read", "padding")


@pytest.fixture(scope="module", autouse=True)
def _processes():
    """Let all runs of this file share one confined process."""
    with shared_processes():
        yield


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What came of every run outside, in one process."""
    return ran(tmp_path_factory.mktemp("modules"))


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_declares_what_it_takes(name):
    method = read_method(FOLDERS[name])
    assert method.tagged
    assert {"input_ids", "logits_processor", "stopping_criteria", "streamer"} <= method.takes
    rows = TABLE.findall(method.source(README))
    assert [(a.name, a.kind, repr(a.default)) for a in method.arguments] == rows
    assert f'custom_generate="path/to/{name}"' in method.source(README)
    assert rows


def test_what_the_methods_share_is_the_same_in_all():
    homes = {name: set() for name in SHARED}
    for folder in FOLDERS.values():
        for node in ast.parse((folder / ENTRY).read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name in SHARED:
                homes[node.name].add(ast.dump(node))
    assert {name: len(found) for name, found in homes.items()} == dict.fromkeys(SHARED, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("name", FOLDERS)
def test_shut_in_it_does_what_it_does_outside(name, outcomes):
    direct, [prompt] = outcomes[name], RUNS[name]["prompts"]
    config, arguments = RUNS[name]["config"], RUNS[name]["arguments"]
    params = {"do_sample": False, **config, "method": name, "arguments": arguments}
    trace = finished(DecodeRequest("custom", input_ids=prompt, params=params, top_candidates=2))
    assert [list(output.token_ids) for output in trace.outputs] == direct["rows"]
    assert sum(step.forward_passes for step in trace.steps) == direct["passes"]
    assert replay_ids(trace.steps) == direct["rows"][0]
    assert trace.notes == ()
    # What the model says of the finished text is what a pass over it says here.
    logprobs = torch.log_softmax(logits_of(prompt + direct["rows"][0])[len(prompt) - 1 : -1], -1)
    said = [token.logprob for token in trace.emitted[0]]
    assert said == pytest.approx(
        [float(row[i]) for row, i in zip(logprobs, direct["rows"][0], strict=True)], abs=1e-4
    )
    # Of the prompt, of every token in its place, and then that there are no more.
    assert direct["streamed"] == [*prompt, *direct["rows"][0], -1]


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in FOLDERS if name not in ONE_ROW])
def test_a_row_of_a_batch_is_what_it_would_be_alone(name, outcomes):
    """Of prompts of two lengths, of which one text ends early, with a penalty that counts rows."""
    batch = outcomes[f"{name}: both"]["rows"]
    alone = [outcomes[f"{name}: {row}"]["rows"][0] for row in ROWS]
    assert [text_of(row) for row in batch] == [text_of(row) for row in alone]
    assert len(batch[0]) == max(map(len, alone))
    assert (
        len(text_of(alone[0])) < len(text_of(alone[1])) == STOPPED_AFTER
    )  # that is where the caller stops it


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in FOLDERS if name not in ONE_ROW])
def test_where_it_has_no_choice_it_is_greedy_search(name, outcomes):
    greedy = outcomes["no choice"]["rows"]
    assert [text_of(row) for row in outcomes[f"{name}: no choice"]["rows"]] == [
        text_of(row) for row in greedy
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("name", ONE_ROW)
def test_a_method_for_one_prompt_says_so(name, outcomes):
    error = outcomes[f"{name}: both"]["error"]
    assert error == "This method takes one prompt at a time, and 2 were given."


@pytest.mark.nightly
@pytest.mark.parametrize("sentence", REFUSED)
def test_a_value_out_of_range_is_named(sentence, outcomes):
    assert sentence in outcomes[sentence]["error"]


@pytest.mark.nightly
def test_mirostat_keeps_nearer_to_its_target_than_plain_sampling(outcomes):
    surprise = {
        name: -scored(ids("two"), outcomes[f"{name}, long"]["rows"]) / math.log(2)
        for name in ("mirostat", "plain")
    }
    assert abs(surprise["mirostat"] - TAU) < 0.5 < abs(surprise["plain"] - TAU)


@pytest.mark.nightly
def test_what_top_n_sigma_keeps_is_the_same_at_any_temperature(outcomes):
    logits = logits_of(ids("two"))[-1]
    kept = set((logits >= logits.max() - logits.std()).nonzero().flatten().tolist())
    drawn = {
        name: {row[0] for row in outcomes[name]["rows"]}
        for name in ("top_n_sigma, hot", "top_n_sigma, cool", "plain, hot")
    }
    assert drawn["top_n_sigma, hot"] == kept  # 400 draws, all but even
    assert drawn["top_n_sigma, cool"] <= kept
    assert not drawn["plain, hot"] <= kept
    assert 1 < len(kept) < 100


@pytest.mark.nightly
def test_looking_ahead_takes_the_branch_that_a_search_without_a_cache_takes(outcomes):
    text, new = ids("cat"), outcomes["continue_when_uncertain"]["rows"][0]
    logprobs = torch.log_softmax(logits_of([*text, *new])[len(text) - 1 : -1], -1)
    gates = (-(logprobs.exp() * logprobs).sum(-1) > 2.0).tolist()
    for token, row, uncertain in list(zip(new, logprobs, gates, strict=True))[:12]:
        best = row.topk(3 if uncertain else 1).indices.tolist()
        assert token == max(best, key=partial(mean_ahead, text, depth=4 if uncertain else 0))
        text = [*text, token]
    assert sum(gates[:12]) > 2
    assert outcomes["continue_when_uncertain"]["passes"] == NEW + 3 * sum(gates)


def mean_ahead(text, first, depth):
    """Return the mean log-probability of a token and its greedy continuation, none of which may end the text."""
    values = []
    for token in (first, *[None] * depth):
        logprobs = torch.log_softmax(logits_of(text)[-1], -1)
        chosen = int(logprobs.argmax()) if token is None else token
        values.append(float(logprobs[chosen]))
        text = [*text, chosen]
    assert END not in text
    return sum(values) / len(values)


@pytest.mark.nightly
def test_looking_ahead_finds_likelier_texts_than_greedy_search(outcomes):
    mean = {
        name: [
            scored(ids(prompt), [row])
            for prompt, row in zip(LIKELY, outcomes[f"{name}, four"]["rows"], strict=True)
        ]
        for name in ("continue_when_uncertain", "greedy")
    }
    assert sum(mean["continue_when_uncertain"]) > sum(mean["greedy"])


@pytest.mark.nightly
def test_rollback_takes_back_the_circle_that_greedy_search_runs_in(outcomes):
    new, greedy = outcomes["rollback_when_stuck"]["rows"][0], outcomes["greedy, ran"]["rows"][0]
    assert most_common(greedy, 3) > 1 == most_common(new, 3)
    assert 1 <= len(unexpected("ran", new)) < NEW / 3


@pytest.mark.nightly
def test_the_template_that_goes_back_avoids_what_is_improbable(outcomes):
    new, greedy = outcomes["rollback"]["rows"][0], outcomes["greedy, two"]["rows"][0]
    assert outcomes["rollback, least 0"]["rows"][0] == greedy
    places = unexpected("two", new)  # where something was forbidden
    assert 1 <= len(places) < NEW / 3
    assert min(chances("two", greedy)) < 0.2
    assert min(p for i, p in enumerate(chances("two", new)) if i not in places) >= 0.2
    assert outcomes["rollback"]["passes"] > NEW


def unexpected(prompt, new):
    """Return the places where a text has not the likeliest token, as the model says without a cache."""
    logits = logits_of([*ids(prompt), *new])[len(ids(prompt)) - 1 : -1]
    return [i for i, token in enumerate(new) if int(logits[i].argmax()) != token]


def chances(prompt, new):
    """Return the probability of each of a text's tokens."""
    logits = logits_of([*ids(prompt), *new])[len(ids(prompt)) - 1 : -1]
    return torch.softmax(logits, -1).gather(-1, torch.tensor(new)[:, None])[:, 0].tolist()


def most_common(row, size):
    return max(Counter(tuple(row[i : i + size]) for i in range(len(row) - size + 1)).values())


@pytest.mark.nightly
def test_the_amateur_is_the_model_with_the_last_token_of_the_prompt(outcomes):
    new, prompt = outcomes["contrastive_decoding"]["rows"][0], ids("forest")
    expert = torch.log_softmax(logits_of([*prompt, *new])[len(prompt) - 1 : -1], -1)
    amateur = torch.log_softmax(logits_of([prompt[-1], *new])[:-1], -1)
    plausible = expert >= expert.max(-1, keepdim=True).values + math.log(0.1)
    best = torch.where(plausible, expert - amateur, -math.inf).argmax(-1)
    assert new == best.tolist() != expert.argmax(-1).tolist()
    # One that sees as much as the model leaves nothing but rounding to contrast.
    assert outcomes["contrastive_decoding, four"]["rows"] == outcomes["greedy, four"]["rows"]


@pytest.mark.nightly
def test_the_least_risk_is_that_of_the_draw_most_like_the_others(outcomes):
    drawn = [row[: len(text_of(row)) + 1] for row in outcomes["four draws"]["rows"]]  # END is of it
    means = [
        sum(alike(one, other) for other in drawn) for one in drawn
    ]  # alike to itself is 1 for all
    assert outcomes["min_bayes_risk"]["rows"][0] == drawn[means.index(max(means))]
    assert len({round(mean, 6) for mean in means}) > 1


def alike(one, other):
    """Return the mean F1 of n-grams up to 4, counted by taking away what was found."""
    total = 0.0
    for size in range(1, 5):
        first = [one[i : i + size] for i in range(len(one) - size + 1)]
        second = [other[i : i + size] for i in range(len(other) - size + 1)]
        left, found = list(second), 0
        for gram in first:
            if gram in left:
                left.remove(gram)
                found += 1
        total += 2 * found / (len(first) + len(second)) / 4
    return total


@pytest.mark.nightly
def test_guesses_save_passes_and_change_no_token(outcomes):
    assert outcomes["draft"]["rows"] == outcomes["greedy, ran"]["rows"]
    assert outcomes["draft"]["passes"] < outcomes["greedy, ran"]["passes"] == NEW


@pytest.mark.nightly
def test_the_rule_of_the_template_says_other_words(outcomes):
    new, greedy = outcomes["next_token"]["rows"][0], outcomes["greedy, ran"]["rows"][0]
    assert len(set(new)) > len(set(greedy))


def logits_of(text):
    """Return the model's logits at every place of a text, read at once, shape (length, vocabulary)."""
    with torch.no_grad():
        return load("storyteller").model(torch.tensor([text])).logits[0].float()


def scored(prompt, rows):
    """Return the mean log-probability of the tokens of texts, up to their ends."""
    values = []
    for row in rows:
        text = text_of(row)
        logprobs = torch.log_softmax(logits_of([*prompt, *text])[len(prompt) - 1 : -1], -1)
        values.append(logprobs.gather(-1, torch.tensor(text)[:, None]))
    return float(torch.cat(values).mean())
