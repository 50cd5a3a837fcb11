"""Names of the influence methods; importing them needs no torch."""

from __future__ import annotations

ATTENTION, GRADIENT, LEAVE_ONE_OUT = METHODS = ("attention", "gradient", "leave-one-out")
