"""Decoders that run on OpenVINO below transformers' own model class and ``generate()``.

A model is converted once (``making``), its graph is stored (``kept``), read and compiled (``graphs``). It
decodes as an object of its transformers class whose ``forward`` runs the graph (``model``), with a cache
inside the graph (``cache``). openvino is imported on first use only.
"""

import sys
from typing import Any, cast

# Blocks telemetry: with this package OpenVINO reports imports and conversions to its makers' server.
sys.modules.setdefault("openvino_telemetry", cast(Any, None))
