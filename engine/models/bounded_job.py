"""A process that renders chat templates and compiles grammars: one JSON object a line in, one out.

Both are programs of somebody else. One operation of them can take hours or gigabytes, and Python
cannot interrupt it. So each job has a deadline after which the system kills the process, and the
process has a limit on memory. This module imports neither torch nor a model.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from jinja2.exceptions import TemplateError, TemplateSyntaxError
from transformers.utils.chat_template_utils import render_jinja_template

from engine.grammar.compile import GrammarError, compile_grammar


def main() -> None:
    """Answer jobs until the input ends."""
    _limit_memory(int(sys.argv[1]))
    for line in sys.stdin:
        job = json.loads(line)
        # No handler: the system kills the process, also in the middle of an operation.
        signal.setitimer(signal.ITIMER_REAL, job["limit_s"])
        answer = _compile(job["spec"]) if "spec" in job else _render(job)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _limit_memory(more: int) -> None:
    """Limit the address space to what the imports use and so many bytes more. Linux only."""
    about = Path("/proc/self/statm")
    if about.exists():
        most = int(about.read_text().split()[0]) * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _compile(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the ``grammar``, or why it is ``refused``: the template of a sentence with its values."""
    try:
        return {"grammar": compile_grammar(spec)}
    except GrammarError as error:
        why = error.args[0]
        return {"refused": why.template, "values": dict(why.values)}


def _render(job: dict[str, Any]) -> dict[str, Any]:
    """Return the ``text``; its ``length`` if it is too long; or why it is ``refused`` or ``broken``."""
    try:
        [text], _ = render_jinja_template(conversations=[job["messages"]], **job["arguments"])
    except TemplateSyntaxError as error:
        return {"broken": error.message or "", "line": error.lineno}
    except TemplateError as error:
        return {"refused": error.message or ""}
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return {"refused": str(error)}
    except (RecursionError, MemoryError) as error:
        return {"refused": type(error).__name__}
    return {"text": text} if len(text) <= job["most_chars"] else {"length": len(text)}


if __name__ == "__main__":
    main()
