"""Where the last run of the programme is kept: one file for programs, one page for readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from benchmarks.about import ROOT
from engine.cli.wrap_markdown import wrap_markdown

FILES = ("assets/reliability.json", "docs/reliability.md")
_ABOUT = ("date", "commit", "machine")
_HEAD = """# Reliability

What the playground withstands, as it was last measured. `make reliability` (minutes) and `make reliability-nightly`
(the same code with large numbers) write this page and [the same as JSON](../assets/reliability.json). A goal marked
*speed* can be missed by a busy machine alone: it is reported and fails nothing. Any other that is missed fails the
command.

Each part says when and at which commit it was measured. One with an older commit was not measured again since.
"""
_FOOT = """## Inputs like those that once failed

Tried by hand on 2026-11-26 (the first nine rows, at commit 395148ac) and on 2026-11-27 (the others, at commit
2e12ab96b826), on two busy cores: new inputs of each kind that had once failed. None ended in an internal error. Right
means that it ran as it should or was refused in one sentence and, for what would cost much, took less than 100 MB. Rows
with a star compare tokens with those of a fresh model, of plain decoding or of `generate()`.

| kind | tried | right |
|---|---|---|
| special tokens in prompts, biases, bans and negative prompts * | 11 | 10 |
| settings files with values that a strategy lacks | 12 | 12 |
| scores beyond all bounds before a filter | 10 | 10 |
| stop strings with three kinds of tokenizers | 18 | 18 |
| heads, bets and expressions of lessons | 17 | 17 |
| JSON bodies that would cost much | 10 | 10 |
| pictures that would cost much | 12 | 11 |
| recorded runs that would cost much | 10 | 10 |
| links, settings, YAML and grammars that would cost much | 12 | 12 |
| models that keep a state, with a prompt of one token after other runs * | 14 | 14 |
| models that are not causal, under drafting (12 classes of BERT's family twice, Gemma 3, XLM) * | 27 | 27 |
| exported drafting with and without scikit-learn * | 11 | 11 |
| sampled drafting with the pad id in the text (6 seeds each) * | 11 | 11 |
| early exits before the first attention layer * | 17 | 14, now 17 |
| hybrids without any attention layer, under greedy search and two ways of drafting * | 27 | 27 |
| DoLa on decoders alone, double layers, odd heads and bytes | 12 | 12 |
| drafts and other loops near the last position * | 25 | 25 |
| encoders and decoders with tables of positions | 12 | 2, now 12 |
| the last position of 14 encoder-decoders under three strategies | 42 | 38, now 42 |
| odd values in a model's JSON files | 113 | 83, now 113 |
| numbers of a config.json given as text, a list or a fraction, also of fields that its kind lacks | 68 | 62, now 68 |
| a model's files that are damaged | 113 | 86, now 113 |
| chat templates that would cost much | 16 | 16 |
| classrooms of two processes with one database | 13 | 13 |
| addresses that proxies write | 18 | 2, now 18 |
| folders for uploads | 11 | 10, now 11 |
| temporary folders of a killed server, in the four places where one creates them | 8 | 8 |
| who visits and under which host, said by strangers to app.py as it is started | 23 | 23 |
| rooms of two teachers and a flood of fifty empty ones | 58 | 58 |
| long work next to a short run of another address, which begins after the step under way | 14 | 13 |
| heads of lessons with anchors, tags, merges or very long values | 31 | 31 |

What is not right: a chat that a model with other tokens scores loses the marks of its template. A TIFF with 16 bits and
a file of 32 MB takes 160 MB of memory to open, more than the 100 MB of the rule. A dial map made twelve passes before
it gave way. The other kinds of long work that give way after a step are four searches with beams or a large top-k,
DoLa, drafting, many sequences, many draws, lists of prompts with and without shared passes, tables of two strategies,
and a map of two dials after another map; where the runs of a table begin together, each first reads its prompt.

What was mended: the sentence for odd files names file and field, also for the tokenizer's files and where only building
a layer shows the mistake, and `output_attentions` in a config.json no longer ends a load. An encoder-decoder's text
ends with its table of positions, and a prompt that its encoder cannot read is refused; both failed inside the model.
ProphetNet's table has fewer places than rows, and LED has one table for each part. A hybrid without a single attention
layer has a cache that cannot count its tokens, with which transformers fails; it now reads the text again in each step.
Fields that transformers reads of configurations of every kind, such as `sliding_window`, are checked also where the
kind has no such field. A proxy's entry with a port was skipped, so that what a visitor wrote before it counted as the
address. Only the folder for uploads was swept at a start: where it is not the system's, what a killed process had left
of models and methods stayed until another one was created there. A head of a lesson took at most 0.33 s and 5 MB.

## Random settings

As `tests/engine/test_any_parameters.py` draws them, at commit abaac34d, each compared with
`generate()` where that has the mode.

| model | strategies | runs | equal | refused in one sentence | not in transformers | internal errors | other tokens |
|---|---|---|---|---|---|---|---|
| Helium, tiny | watermark | 300 | 234 | 47 | 19 | 0 | 0 |
| SmolLM2 135M Instruct, a chat, at most 4 new tokens | all 13 | 75 | 43 | 5 | 27 | 0 | 0 |

The runs with SmolLM2 are 5 or 6 of each strategy, fewer than the 300 that were planned: the two cores were shared
with others, and a run took 24 seconds.
"""


def write(result: Mapping[str, Any]) -> None:
    """Put a part's result in the place of its last one, and write both files anew."""
    data, page = (ROOT / name for name in FILES)
    kept = json.loads(data.read_text())["parts"] if data.exists() else []
    parts = [part for part in kept if part["part"] != result["part"]]
    parts = sorted([*parts, result], key=_place)
    about = {name: result[name] for name in _ABOUT}
    data.write_text(json.dumps({**about, "parts": parts}, indent=1, ensure_ascii=False) + "\n")
    page.write_text(page_of(parts))


def _place(part: Mapping[str, Any]) -> int:
    from benchmarks.reliability.parts import PARTS

    names = list(PARTS)
    return names.index(part["part"]) if part["part"] in names else len(names)


def page_of(parts: list[Mapping[str, Any]]) -> str:
    """Return the page that says what every part found."""
    return wrap_markdown("\n".join([_HEAD, *(_section(part) for part in parts), _FOOT]))


def _section(part: Mapping[str, Any]) -> str:
    verdict = "held" if part["held"] else "**not held**"
    about = part["machine"]
    load = ", ".join(str(value) for value in about["load_average"])
    where = f"{about['cores']} cores, {about['memory_gb']} GB, load average {load} at the start"
    rows = "".join(_row(part, name) for name in {**part["figures"], **part["goals"]})
    examples = "".join(f"\n- {text}" for text in part["examples"])
    return (
        f"## {part['title']}\n\n"
        f"`{part['part']}`, n = {part['n']}: {verdict}. {part['date']}, commit {part['commit']}, "
        f"{part['seconds']:g} s, {where}.\n\n"
        f"| figure | found | goal |\n|---|---|---|\n{rows}{examples}" + ("\n" if examples else "")
    )


def _row(part: Mapping[str, Any], name: str) -> str:
    goal = part["goals"].get(name, "")
    missed = ", missed" if name in part["missed"] else ""
    of_speed = " (speed)" if name in part["of_speed"] else ""
    return f"| {name} | {part['figures'].get(name, '–')} | {goal}{of_speed}{missed} |\n"
