"""The graphs of one converted model: whole pass, head and norm, each compiled on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.models.sizes import COMPILED

GRAPH = "graph.xml"
WEIGHTS = "graph.bin"
SHOWN = "shown"
"""Graph input: indices (n,) of the new positions to return the hidden states of all layers for."""
_FREE = 2
"""Most idle requests stored for reuse: each keeps the memory of its longest text."""


@lru_cache(maxsize=1)
def core() -> Any:
    """Return the process's OpenVINO Core."""
    import openvino

    return openvino.Core()


def options(threads: int) -> dict[str, Any]:
    """Return OpenVINO's compile options. Precision is float32: other precisions would change the model's numbers."""
    return {
        "INFERENCE_PRECISION_HINT": "f32",
        "KV_CACHE_PRECISION": "f32",
        # 0 leaves activations unquantised: quantised ones raised the KL from 0.0035 to 0.0063 (SmolLM2).
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "ENABLE_HYPER_THREADING": True,
        "ENABLE_CPU_PINNING": False,
    }


class Compiled:
    """A compiled graph and its idle infer requests.

    Args:
        graph: an openvino.Model.
        threads: number of compute threads.
    """

    def __init__(self, graph: Any, threads: int) -> None:
        self._compiled = core().compile_model(graph, "CPU", options(threads))
        self.inputs = frozenset(given.any_name for given in self._compiled.inputs)
        self.outputs = tuple(next(iter(sorted(out.names)), "") for out in self._compiled.outputs)
        self._free: list[Any] = []

    def take(self) -> Any:
        """Return an infer request with empty state."""
        try:
            request = self._free.pop()
        except IndexError:
            return self._compiled.create_infer_request()
        request.reset_state()
        return request

    def give(self, request: Any) -> None:
        """Return a request to the pool of idle ones."""
        if len(self._free) < _FREE:
            self._free.append(request)


class Graphs:
    """The compiled parts of a converted model.

    Args:
        folder: folder of its graph and weights.
        layers: number of layers before norm and head; None for all.
        threads: number of compute threads; None for torch's current number.
    """

    def __init__(self, folder: Path, layers: int | None = None, threads: int | None = None) -> None:
        self.folder, self.layers = folder, layers
        self.threads = threads or torch.get_num_threads()
        self._lock = threading.Lock()
        self._made: dict[Any, Any] = {}

    def first_layers(self, layers: int) -> Graphs:
        """Return the graphs with only the first layers, for early exit."""
        return self._once(layers, lambda: Graphs(self.folder, layers, self.threads))

    @property
    def whole(self) -> Compiled:
        """The graph of a forward pass."""
        return self._once("whole", lambda: Compiled(self._whole(), self.threads))

    def head(self, states: torch.Tensor) -> torch.Tensor:
        """Return the head's logits (…, vocab) for hidden states (…, hidden)."""
        return self._part("head_in", "head_out", states)

    def norm(self, states: torch.Tensor) -> torch.Tensor:
        """Return hidden states (…, hidden) after the final norm."""
        return self._part("deep", "normed", states)

    @cached_property
    def file_bytes(self) -> int:
        """Bytes of the weights file."""
        return (self.folder / WEIGHTS).stat().st_size

    @property
    def memory_bytes(self) -> float:
        """Estimated bytes of the compiled graphs; each has its own copy of the weights in its kernels' layout."""
        with self._lock:
            made = dict(self._made)
        own = COMPILED * self.file_bytes * ("whole" in made)
        return own + sum(v.memory_bytes for v in made.values() if isinstance(v, Graphs))

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]

    def _part(self, begin: str, end: str, states: torch.Tensor) -> torch.Tensor:
        compiled = self._once(end, lambda: Compiled(self._between(begin, end), self.threads))
        request = compiled.take()
        flat = states.detach().reshape(-1, states.shape[-2], states.shape[-1])
        result = run(request, {begin: flat.to(torch.float32).numpy()})[0]
        compiled.give(request)
        return result.reshape(*states.shape[:-1], result.shape[-1])

    def _read(self) -> tuple[Any, dict[str, Any]]:
        """Read the graph file; return it and {output name: the value behind it}."""
        graph = core().read_model(self.folder / GRAPH)
        found = {name: out.get_node().input_value(0) for out in graph.outputs for name in out.names}
        return graph, found

    def _between(self, begin: str, end: str) -> Any:
        """Return the graph that computes one output from another."""
        from openvino import PartialShape
        from openvino import opset15 as ops

        _, found = self._read()
        size = found[begin].get_partial_shape()[-1]
        given = ops.parameter(PartialShape([-1, -1, size]), np.float32, name=begin)
        given.output(0).get_tensor().add_names({begin})
        for reader in found[begin].get_target_inputs():
            reader.replace_source_output(given.output(0))
        return _model([ops.result(found[end])], [given], end)

    def _whole(self) -> Any:
        """Return the graph of a pass: logits, and hidden states of all layers at the requested positions."""
        from openvino import opset15 as ops

        graph, found = self._read()
        count = sum(name.startswith("state.") for name in found)
        # Early exit: norm and head read the state after the last kept layer.
        if self.layers is not None:
            for reader in found["deep"].get_target_inputs():
                reader.replace_source_output(found[f"state.{self.layers}"])
            count = self.layers
        shown = ops.parameter([-1], np.int64, name=SHOWN)
        shown.output(0).get_tensor().add_names({SHOWN})
        places, zero = ops.constant(np.int64(1)), ops.constant(np.int64(0))
        states = [
            ops.unsqueeze(ops.gather(found[f"state.{at}"], shown, places), zero)
            for at in range(count)
        ]
        results = [ops.result(found["logits"]), ops.result(ops.concat(states, 0))]
        return _reached(graph, results, [*graph.get_parameters(), shown])


def _reached(graph: Any, results: list[Any], parameters: list[Any]) -> Any:
    """Return the part of a graph that the results need, with its share of the state."""
    wanted, seen = list(results), set()
    states = set()
    while wanted:
        node = wanted.pop()
        if node.get_name() in seen:
            continue
        seen.add(node.get_name())
        if node.get_type_name() == "ReadValue":
            states.add(node.get_variable_id())
        wanted += [node.input_value(at).get_node() for at in range(node.get_input_size())]
    sinks = [sink for sink in graph.get_sinks() if sink.get_variable_id() in states]
    variables = [v for v in graph.get_variables() if v.get_info().variable_id in states]
    used = [p for p in parameters if p.get_name() in seen]
    return _model(results, sinks, used, variables, "pass")


def _model(*parts: Any) -> Any:
    import openvino

    make: Any = openvino.Model
    return make(*parts)


def run(request: Any, inputs: dict[str, np.ndarray]) -> list[torch.Tensor]:
    """Run a request and return copies of its outputs: the next pass overwrites the request's own tensors."""
    import openvino as ov

    for name, value in inputs.items():
        request.set_tensor(name, ov.Tensor(np.ascontiguousarray(value)))
    request.infer()
    count = len(request.model_outputs)
    return [torch.from_numpy(request.get_output_tensor(at).data.copy()) for at in range(count)]
