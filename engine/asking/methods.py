"""How a step may be looked into, by name: whoever only names it needs no model."""

from __future__ import annotations

ATTENTION, GRADIENT, LEAVE_ONE_OUT = METHODS = ("attention", "gradient", "leave-one-out")
