"""All parts of the programme, by name, in the order in which they are measured."""

from __future__ import annotations

from benchmarks.reliability import load

PARTS = {part.name: part for part in (load.PART,)}
