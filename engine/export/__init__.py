"""Exported code and tables of a run. Importing this package loads neither torch nor a model."""

from __future__ import annotations
