"""A small lesson over two recorded runs, and cards with other blocks."""

from __future__ import annotations

from engine.lessons import library
from engine.lessons.answer_key import LessonWithRuns
from engine.lessons.lesson_parser import parse_lesson

HEAD = """---
title: A lesson
for: somebody
minutes: 3
runs:
  story: {recorded: greedy-1}
  drawn: {recorded: sampling-1}
---
"""
CARD = """
# A card

```card
run: story
step: 4
bet:
  kind: token
  question: Which token?
  among: 4
```

So far “{run.prompt}”.

## Reveal

It is “{step.token}” with {percent(step.p)}.
"""


def opened(text: str) -> LessonWithRuns:
    lesson = parse_lesson(text, "own")
    return LessonWithRuns(
        lesson, {r.name: library.load_gallery_run(r) for r in lesson.runs.values()}
    )


def card(block: str, reveal: str = "Seen.", situation: str = "So far.") -> str:
    indented = block.strip("\n")
    return f"{HEAD}\n# A card\n\n```card\n{indented}\n```\n\n{situation}\n\n## Reveal\n\n{reveal}\n"
