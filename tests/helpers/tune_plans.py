"""A small plan of a table: two prompts, four settings and two seeds."""

from __future__ import annotations

from typing import Any

LENGTH = {"max_new_tokens": 12}
PLAN: dict[str, Any] = {
    "prompts": [
        "Once upon a time",
        {"prompt": "The dragon opened the door and", "reference": "SAID"},
    ],
    "settings": [
        {"strategy": "greedy", "params": LENGTH},
        {"strategy": "sampling", "params": LENGTH, "grid": "temperature = 0.7, 1.4"},
        {"strategy": "beam_search", "params": {**LENGTH, "num_beams": 2}},
    ],
    "seeds": 2,
}
