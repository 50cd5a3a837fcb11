"""Decoders whose passes OpenVINO computes: transformers' own class and ``generate()``, another engine below them.

A model is converted once (``making``), kept as a graph beside the other models that were made (``kept``), read and
compiled (``graphs``), and decodes as an object of its own class whose ``forward`` asks a graph (``model``) with a
cache that the graph holds (``cache``). Nothing here imports openvino before it is asked for.
"""

import sys
from typing import Any, cast

# With this package OpenVINO tells its makers' server that it was imported and what was converted; without, it does not.
sys.modules.setdefault("openvino_telemetry", cast(Any, None))
