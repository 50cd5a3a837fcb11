"""Export of a run as code and tables. Importing this package loads neither torch nor a model."""

from __future__ import annotations
