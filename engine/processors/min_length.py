"""The minimum length, into which generate() turns the minimum of new tokens."""

from __future__ import annotations

from dataclasses import replace

from engine.processors import min_new_tokens

FILTER = replace(min_new_tokens.FILTER, name="MinLength", title="Minimum length", params={})
