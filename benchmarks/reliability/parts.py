"""All parts of the programme, by name, in the order in which they are measured."""

from __future__ import annotations

from benchmarks.reliability import (
    bombs,
    census,
    company,
    downloads,
    ends,
    faults,
    fuzz,
    grammars,
    liveness,
    load,
    memory,
    soak,
    turns,
)

PARTS = {
    part.name: part
    for part in (
        load.PART,
        company.PART,
        faults.PART,
        memory.PART,
        ends.PART,
        soak.PART,
        fuzz.VALIDATION,
        fuzz.PART,
        liveness.PART,
        downloads.PART,
        bombs.PART,
        grammars.PART,
        turns.PART,
        census.PART,
    )
}
