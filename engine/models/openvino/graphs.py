"""The graphs of one converted model: whole pass, head and norm, each compiled on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.models.sizes import COMPILED_RATIO

GRAPH_FILE = "graph.xml"
WEIGHTS_FILE = "graph.bin"
STATE_POSITIONS = "shown"
"""Graph input: indices (n,) of the new positions to return the hidden states of all layers for."""
_MAX_FREE_REQUESTS = 2
"""Most idle requests stored for reuse: each keeps the memory of its longest text."""


@lru_cache(maxsize=1)
def openvino_core() -> Any:
    """Return the process's OpenVINO Core."""
    import openvino

    return openvino.Core()


def compile_options(threads: int) -> dict[str, Any]:
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


class CompiledGraph:
    """A compiled graph and its idle infer requests.

    Args:
        graph: an openvino.Model.
        threads: number of compute threads.
    """

    def __init__(self, graph: Any, threads: int) -> None:
        self._compiled = openvino_core().compile_model(graph, "CPU", compile_options(threads))
        self.inputs = frozenset(given.any_name for given in self._compiled.inputs)
        self.outputs = tuple(next(iter(sorted(out.names)), "") for out in self._compiled.outputs)
        self._free: list[Any] = []

    def acquire_request(self) -> Any:
        """Return an infer request with empty state."""
        try:
            # No test before it: another thread may take the last one in between.
            request = self._free.pop()
        except IndexError:
            return self._compiled.create_infer_request()
        request.reset_state()
        return request

    def release_request(self, request: Any) -> None:
        """Return a request to the pool of idle ones."""
        if len(self._free) < _MAX_FREE_REQUESTS:
            self._free.append(request)


class ModelGraphs:
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
        self._compiled_parts: dict[Any, Any] = {}

    def first_layers(self, layers: int) -> ModelGraphs:
        """Return the graphs with only the first layers, for early exit."""
        return self._compile_once(layers, lambda: ModelGraphs(self.folder, layers, self.threads))

    @property
    def whole(self) -> CompiledGraph:
        """The graph of a forward pass."""
        return self._compile_once(
            "whole", lambda: CompiledGraph(self._build_pass_graph(), self.threads)
        )

    def head(self, states: torch.Tensor) -> torch.Tensor:
        """Return the head's logits (…, vocab) for hidden states (…, hidden)."""
        return self._run_part("head_in", "head_out", states)

    def norm(self, states: torch.Tensor) -> torch.Tensor:
        """Return hidden states (…, hidden) after the final norm."""
        return self._run_part("deep", "normed", states)

    @cached_property
    def file_bytes(self) -> int:
        """Bytes of the weights file."""
        return (self.folder / WEIGHTS_FILE).stat().st_size

    @property
    def memory_bytes(self) -> float:
        """Estimated bytes of the compiled graphs; each has its own copy of the weights in its kernels' layout."""
        with self._lock:
            compiled = dict(self._compiled_parts)
        own = COMPILED_RATIO * self.file_bytes * ("whole" in compiled)
        return own + sum(v.memory_bytes for v in compiled.values() if isinstance(v, ModelGraphs))

    def _compile_once(self, key: object, make: Callable[[], Any]) -> Any:
        with self._lock:
            # The lock is held while it compiles: a second thread would make another copy of the weights.
            if key not in self._compiled_parts:
                self._compiled_parts[key] = make()
            return self._compiled_parts[key]

    def _run_part(self, begin: str, end: str, states: torch.Tensor) -> torch.Tensor:
        compiled = self._compile_once(
            end, lambda: CompiledGraph(self._build_part_graph(begin, end), self.threads)
        )
        request = compiled.acquire_request()
        flat = states.detach().reshape(-1, states.shape[-2], states.shape[-1])
        result = run_request(request, {begin: flat.to(torch.float32).numpy()})[0]
        compiled.release_request(request)
        return result.reshape(*states.shape[:-1], result.shape[-1])

    def _read(self) -> tuple[Any, dict[str, Any]]:
        """Read the graph file; return it and {output name: the value behind it}."""
        graph = openvino_core().read_model(self.folder / GRAPH_FILE)
        found = {name: out.get_node().input_value(0) for out in graph.outputs for name in out.names}
        return graph, found

    def _build_part_graph(self, begin: str, end: str) -> Any:
        """Return the graph that computes one output from another."""
        from openvino import PartialShape
        from openvino import opset15 as ops

        _, found = self._read()
        size = found[begin].get_partial_shape()[-1]
        parameter = ops.parameter(PartialShape([-1, -1, size]), np.float32, name=begin)
        parameter.output(0).get_tensor().add_names({begin})
        for reader in found[begin].get_target_inputs():
            reader.replace_source_output(parameter.output(0))
        return _new_model([ops.result(found[end])], [parameter], end)

    def _build_pass_graph(self) -> Any:
        """Return the graph of a pass: logits, and hidden states of all layers at the requested positions."""
        from openvino import opset15 as ops

        graph, found = self._read()
        count = sum(name.startswith("state.") for name in found)
        # Early exit: norm and head read the state after the last kept layer.
        if self.layers is not None:
            for reader in found["deep"].get_target_inputs():
                reader.replace_source_output(found[f"state.{self.layers}"])
            count = self.layers
        shown = ops.parameter([-1], np.int64, name=STATE_POSITIONS)
        shown.output(0).get_tensor().add_names({STATE_POSITIONS})
        places, zero = ops.constant(np.int64(1)), ops.constant(np.int64(0))
        states = [
            ops.unsqueeze(ops.gather(found[f"state.{at}"], shown, places), zero)
            for at in range(count)
        ]
        results = [ops.result(found["logits"]), ops.result(ops.concat(states, 0))]
        return _reachable_model(graph, results, [*graph.get_parameters(), shown])


def _reachable_model(graph: Any, results: list[Any], parameters: list[Any]) -> Any:
    """Return the part of a graph that the results need, with its share of the state."""
    open_nodes, names = list(results), set()
    states = set()
    while open_nodes:
        node = open_nodes.pop()
        if node.get_name() in names:
            continue
        names.add(node.get_name())
        if node.get_type_name() == "ReadValue":
            states.add(node.get_variable_id())
        open_nodes += [node.input_value(at).get_node() for at in range(node.get_input_size())]
    # Early exit leaves layers out, and their part of the state has to go with them.
    sinks = [sink for sink in graph.get_sinks() if sink.get_variable_id() in states]
    variables = [v for v in graph.get_variables() if v.get_info().variable_id in states]
    used = [p for p in parameters if p.get_name() in names]
    return _new_model(results, sinks, used, variables, "pass")


def _new_model(*parts: Any) -> Any:
    import openvino

    make: Any = openvino.Model
    return make(*parts)


def run_request(request: Any, inputs: dict[str, np.ndarray]) -> list[torch.Tensor]:
    """Run a request and return copies of its outputs: the next pass overwrites the request's own tensors."""
    import openvino as ov

    for name, value in inputs.items():
        request.set_tensor(name, ov.Tensor(np.ascontiguousarray(value)))
    request.infer()
    count = len(request.model_outputs)
    return [torch.from_numpy(request.get_output_tensor(at).data.copy()) for at in range(count)]
