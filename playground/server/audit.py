"""The audit page: version, permissions, limits and model hashes, at /audit and /audit.json."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from playground.server import deployment
from visualizers import page

_STYLES = """
body { margin: 0 auto; max-width: 960px; padding: 24px 16px 48px; background: var(--dp-bg); color: var(--dp-text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 32px 0 8px; }
p { margin: 4px 0 12px; color: var(--dp-muted); } a { color: var(--dp-accent); }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: 6px 14px 6px 0; border-bottom: 1px solid var(--dp-line); }
th { font-weight: 650; color: var(--dp-muted); } code { font-family: var(--dp-mono); font-size: .85em; }
.t { white-space: nowrap; font-variant-numeric: tabular-nums; }
@media (max-width: 700px) {
  thead { display: none; } table, tbody, tr, td { display: block; }
  tr { border-bottom: 1px solid var(--dp-line); padding: 8px 0; }
  td { border: 0; padding: 0; overflow-wrap: anywhere; } .t { white-space: normal; }
}
.good { color: var(--dp-good); } .bad { color: var(--dp-bad); } .warn { color: var(--dp-warn); }
"""
# As on Gradio's page: the system's preference, or ``?__theme=dark``.
_DARK_MODE_SCRIPT = (
    "document.documentElement.classList.toggle('dark', matchMedia('(prefers-color-scheme: dark)').matches"
    " || new URLSearchParams(location.search).get('__theme') === 'dark');"
)


def routes() -> list[Route]:
    """Return the routes ``/audit`` and ``/audit.json``."""
    return [Route("/audit", _page_response), Route("/audit.json", _json_response)]


async def _page_response(request: Request) -> Response:
    # The first call hashes all model files, so it must not block the event loop.
    return HTMLResponse(render_audit(await run_in_threadpool(deployment.collect_facts)))


async def _json_response(request: Request) -> Response:
    return JSONResponse(await run_in_threadpool(deployment.collect_facts))


def render_audit(facts: dict[str, Any]) -> str:
    """Return the audit page as HTML.

    Args:
        facts: see ``deployment.facts``.
    """
    parts = [
        "<h1>About this playground</h1>",
        '<p>What runs here, what it allows, and how it was tested. <a href="./">Back to the playground</a>'
        ' · <a href="./audit.json">the same as JSON</a></p>',
        *_about_section(facts),
        "<h2>What a visitor may do</h2>",
        _table_html([], [(_bold(name), escape(text)) for name, text in facts["allows"]], [0]),
        *_reliability_section(facts["reliability"]),
        *_models_section(facts["models"]),
        *_limits_section(facts["limits"]),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>About this playground</title>'
        f"<style>{page.read_styles()}{_STYLES}</style><script>{_DARK_MODE_SCRIPT}</script></head>"
        f"<body><main>{''.join(parts)}</main></body></html>"
    )


def _about_section(facts: dict[str, Any]) -> list[str]:
    packages = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    kind = (
        "a public Space" if facts["public"] else "for its owner and whoever can reach this machine"
    )
    rows = [
        (_bold("Version"), escape(facts["version"])),
        (_bold("Commit"), f"<code>{escape(facts['commit'])}</code>"),
        (_bold("Made with"), escape(packages)),
        (_bold("Open to"), escape(kind)),
    ]
    return ["<h2>What runs here</h2>", _table_html([], rows, [0])]


def _models_section(models: dict[str, Any]) -> list[str]:
    rows = [
        (
            escape(path),
            f"<code>{digest}</code>",
            _state_html(models["state"].get(path.split("/")[0], "")),
        )
        for path, digest in models["files"].items()
    ]
    told = f"<p>Read and compared on {escape(models['checked'])}; each is compared again when its model is loaded.</p>"
    return ["<h2>The embedded models</h2>", told, _table_html(["File", "sha256", ""], rows, [0, 2])]


def _state_html(text: str) -> str:
    if text == "as shipped":
        return '<span class="good">✓ as shipped</span>'
    return f'<span class="bad">✗ {escape(text or "not checked")}</span>'


def _limits_section(limits: list[dict[str, Any]]) -> list[str]:
    rows = [
        (
            f"<code>{escape(limit['name'])}</code>",
            _format_number(limit["value"]),
            escape(limit["means"])
            + (
                ""
                if limit["value"] == limit["default"]
                else f" (else {_format_number(limit['default'])})"
            ),
        )
        for limit in limits
    ]
    told = "<p>Each can be set by an environment variable PLAYGROUND_ and its name in capitals.</p>"
    return [
        "<h2>Limits in force</h2>",
        told,
        _table_html(["Limit", "Value", "What it means"], rows, [0, 1]),
    ]


def _format_number(value: float) -> str:
    return f"{value:,.15g}"


def _reliability_section(found: dict[str, Any] | None) -> list[str]:
    title = "<h2>The last reliability run</h2>"
    if found is None:
        return [title, "<p>None is recorded here.</p>"]
    rows = [
        (
            escape(str(part.get("title", part.get("part", "")))),
            f"n = {part['n']:,}" if isinstance(part.get("n"), int) else "",
            _format_figures(part),
            _goals_html(part),
        )
        for part in found["parts"]
        if isinstance(part, dict)
    ]
    told = f"<p>{escape(str(found.get('date', '')))}, commit <code>{escape(str(found.get('commit', '')))}</code>.</p>"
    return [title, told, _table_html(["What", "", "Figures and their goals", ""], rows, [1, 3])]


def _format_figures(part: dict[str, Any]) -> str:
    """Format a part's figures as text, those with a goal first."""
    figures, goals = part.get("figures") or {}, part.get("goals") or {}
    told = []
    for name in sorted(figures, key=lambda name: name not in goals):
        goal = f" (goal {goals[name]})" if name in goals else ""
        told.append(f"{name.replace('_', ' ')} {_format_figure(figures[name])}{goal}")
    return escape("; ".join(told))


def _format_figure(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _goals_html(part: dict[str, Any]) -> str:
    """Format whether a part met its goals.

    ``slow`` marks missed speed goals only; these depend on how busy the machine was.
    """
    if part.get("held") is not True:
        return '<span class="bad">✗ not held</span>'
    if part.get("slow"):
        return '<span class="warn">✓ held, too slow</span>'
    return '<span class="good">✓ held</span>'


def _bold(text: str) -> str:
    return f"<b>{escape(text)}</b>"


def _table_html(
    heads: list[str], rows: Iterable[tuple[str, ...]], tight: Iterable[int] = ()
) -> str:
    """Return an HTML table; the cells must be escaped HTML.

    Args:
        heads: column titles as text; empty for a table without a header.
        rows: the cells of each row.
        tight: indices of the columns that should not wrap.
    """
    narrow = set(tight)
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join(
        f"<tr>{''.join(_cell_html(cell, i in narrow) for i, cell in enumerate(row))}</tr>"
        for row in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if heads else ""
    return f"<table>{top}<tbody>{body}</tbody></table>"


def _cell_html(content: str, tight: bool) -> str:
    return f'<td class="t">{content}</td>' if tight else f"<td>{content}</td>"
