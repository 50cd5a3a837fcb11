"""The page that a notebook's widget shows in a frame: the views of a run that has no steps yet."""

from __future__ import annotations

from pathlib import Path

from engine.run.request import DecodeRequest
from engine.strategies import STRATEGIES
from visualizers import strategy_visuals
from visualizers.page import VISUALIZERS_FOLDER, Scripts, fill_page, order_views, page_skeleton

CLIENT_FOLDER = Path(__file__).resolve().parents[1] / "client"
_SCRIPTS = Scripts("playground/client/notebook/live_page.mjs", (VISUALIZERS_FOLDER, CLIENT_FOLDER))


def run_name(request: DecodeRequest) -> str:
    """Return what a run is called above its views."""
    return f"{request.strategy}, seed {request.seed}"


def live_page(request: DecodeRequest) -> str:
    """Return the HTML of a page that draws a run from its messages.

    Args:
        request: what is decoded; the page of an unknown strategy has the common views only.
    """
    strategy = STRATEGIES.get(request.strategy)
    views = () if strategy is None else strategy_visuals(strategy.name, strategy.visuals)
    data = {
        "name": run_name(request),
        "strategy": request.strategy,
        "visuals": order_views(views),
    }
    return fill_page(page_skeleton(views, scripts=_SCRIPTS), data)
