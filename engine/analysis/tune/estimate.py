"""How long a table will take, from the runs of this process so far."""

from __future__ import annotations

from engine.analysis.tune.plan import Cell, TunePlan
from engine.run.preparation import parse_models
from engine.run.request import check_request
from engine.run.scheduler import RUN_QUEUE
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES


def estimate_seconds(plan: TunePlan) -> float | None:
    """Return the expected seconds of all runs without other visitors.

    Returns:
        None before the first run, and for a model behind an address.
    """
    if plan.is_on_server:
        return None
    total = 0.0
    for place, setting in enumerate(plan.settings):
        checked = parse_models(check_request(plan.request(Cell(0, place, plan.seeds[0]))))
        kind = (setting.strategy, *(model.name for model in checked.models))
        expected = RUN_QUEUE.estimate_run(kind, float(checked.config.max_new_tokens))
        if expected is None:
            return None
        shares = STRATEGIES[setting.strategy].shares and not plan.runs_alone
        runs = sum(cell.setting == place for cell in plan.cells)
        # Runs that share passes take about the time of one.
        total += expected * runs / (max(1, SETTINGS.max_shared_runs) if shares else 1)
    return total
