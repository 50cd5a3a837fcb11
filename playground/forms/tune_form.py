"""The form of a table: its plan, and what the page shows of it before the first run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.analysis.tune.measures import DEFAULT_MEASURES, PATTERN, REFERENCE, SCHEMA, SPEED
from engine.analysis.tune.plan import MAX_SETTINGS, TunePlan
from engine.analysis.tune.read_plan import read_plan, read_prompts
from engine.declare.params import Integer
from engine.errors import ParameterError
from playground.forms import controls
from playground.forms.form import check_method_is_local, form_params, read_strategy

_SEEDS = Integer(label="Seeds", help="Seeds of each setting.", minimum=1, maximum=10)


def read_table_form(payload: Mapping[str, Any]) -> TunePlan:
    """Return the checked plan of what the page sent.

    Args:
        payload: ``prompts``, a text with one prompt or JSON object a line; ``columns``, the settings,
            each with ``strategy``, ``values`` and ``name``; ``seeds``, how many; and maybe
            ``model``, ``base``, the judge model, ``pattern``, ``schema``, ``match`` and ``speed``,
            whether runs are timed one after another.

    Raises:
        EngineError: one sentence on what is wrong.
    """
    columns = payload.get("columns")
    if not isinstance(columns, list):
        raise ParameterError("settings", columns, "it must be a list")
    prompts, pattern, schema = (payload.get(name) for name in ("prompts", "pattern", "schema"))
    measures = [*DEFAULT_MEASURES, *([SPEED] if payload.get("speed") is True else [])]
    measures += [name for name, given in ((PATTERN, pattern), (SCHEMA, schema)) if given]
    if any(prompt.reference is not None for prompt in read_prompts(prompts)):
        measures.append(REFERENCE)
    plan = read_plan(
        {
            "prompts": prompts,
            "settings": [_read_column(column) for column in columns[: MAX_SETTINGS + 1]],
            "seeds": _SEEDS.check("seeds", controls.to_int(payload.get("seeds"))),
            "measures": measures,
            **{name: payload.get(name) for name in ("model", "pattern", "schema")},
            "judge": payload.get("base"),
            "match": payload.get("match") or "contains",
        }
    )
    for cell in plan.cells[: len(plan.settings) * len(plan.seeds)]:
        check_method_is_local(plan.request(cell))
    return plan


def check_table_form(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the form of a link, whose table could run.

    Raises:
        EngineError: see ``read_table_form``.
    """
    read_table_form(payload)
    return payload


def _read_column(column: Any) -> dict[str, Any]:
    if not isinstance(column, Mapping):
        raise ParameterError("settings", column, "each must be an object")
    params = form_params(read_strategy(column), column.get("values") or {})
    name = str(column.get("name") or "")[:120]
    return {"strategy": column["strategy"], "params": params, "name": name}
