"""Trace a transformers decoder to an OpenVINO graph with keys and values as its state."""

from __future__ import annotations

import inspect
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from engine.errors import ModelError
from engine.models.capabilities import final_norm, layer_stack
from engine.models.model_types import Model

ROWS, PAST, NEW = 2, 3, 2
"""Sizes of the traced pass. None is 1, since tracing would take that for a broadcast."""
POSITION_IDS, LOGIT_POSITIONS, ROW_INDICES = "position_ids", "kept", "beam_idx"


class TracedPass(torch.nn.Module):
    """A model's pass with plain tensors as inputs and outputs, for tracing.

    Args:
        model: a decoder with its weights.
        names: names of the inputs before the keys and values.
    """

    def __init__(self, model: Model, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names
        self.outputs: tuple[str, ...] = ()
        """Names of the outputs; set by the first call."""

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return logits, hidden states of all layers, inputs and outputs of norm and head, keys and values."""
        inputs = dict(zip(self.names, tensors, strict=False))
        cache: Any = to_dynamic_cache(tensors[len(self.names) :])
        kept = {"logits_to_keep": inputs.pop(LOGIT_POSITIONS)} if LOGIT_POSITIONS in inputs else {}
        states: dict[str, torch.Tensor] = {}
        with ExitStack() as hooks:
            _register_hooks(self.model, states, hooks)
            out = self.model(
                **inputs, **kept, past_key_values=cache, use_cache=True, output_hidden_states=True
            )
        named = {"logits": out.logits}
        named |= {f"state.{at}": state for at, state in enumerate(out.hidden_states)}
        named |= states
        for at, layer in enumerate(cache.layers):
            named |= {f"present.{at}.k": layer.keys, f"present.{at}.v": layer.values}
        self.outputs = tuple(named)
        return tuple(named.values())


def to_dynamic_cache(tensors: Any) -> DynamicCache:
    """Return a DynamicCache with these keys and values, alternating by layer; the mask applies sliding windows."""
    cache = DynamicCache()
    for keys, values in zip(tensors[::2], tensors[1::2], strict=True):
        layer: Any = DynamicLayer()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache


def _register_hooks(model: Model, states: dict[str, torch.Tensor], hooks: ExitStack) -> None:
    """Record the last layer's output, and inputs and outputs of norm and head, with forward hooks."""

    def note(module: torch.nn.Module, before: str | None, after: str) -> None:
        def hook(_: object, inputs: tuple[torch.Tensor, ...], result: Any) -> None:
            if before is not None:
                states.setdefault(before, inputs[0])
            states[after] = result[0] if isinstance(result, tuple) else result

        hooks.callback(module.register_forward_hook(hook).remove)

    stack, norm, head = layer_stack(model), final_norm(model), model.get_output_embeddings()
    if stack is not None:
        note(stack[1][-1], None, "deep")
    if norm is not None:
        note(norm, "deep", "normed")
    if head is not None:
        note(head, "head_in", "head_out")


def trace_to_graph(model: Model) -> Any:
    """Trace a decoder to an openvino.Model with keys and values as its state.

    Args:
        model: on the CPU, in float32.

    Raises:
        ModelError: the graph lacks outputs, or the cache holds more than keys and values.
    """
    import openvino as ov

    keys = _example_keys_values(model)
    names = _input_names(model)
    example = _example_inputs(names)
    module = TracedPass(model, names)
    with torch.no_grad():
        graph = ov.convert_model(module, example_input=(*example.values(), *keys))
    if len(graph.outputs) != len(module.outputs):
        raise ModelError("its graph does not give back all that its layers say")
    past = [name.replace("present", "past") for name in module.outputs if "present" in name]
    for output, name in zip(graph.outputs, module.outputs, strict=True):
        output.get_tensor().add_names({name})
    for given, name, tensor in zip(
        graph.inputs, (*names, *past), (*example.values(), *keys), strict=True
    ):
        given.get_tensor().set_names({name})
        shape = [-1] * tensor.dim()
        if name in past:
            # Heads and their width are the model's; rows and positions vary.
            shape = [-1, tensor.shape[1], -1, tensor.shape[3]]
        given.get_node().set_partial_shape(ov.PartialShape(shape))
    graph.validate_nodes_and_infer_types()
    _make_stateful(graph, past)
    return graph


def _input_names(model: Model) -> tuple[str, ...]:
    known = inspect.signature(model.forward).parameters
    own = ("input_ids", "attention_mask")
    own += (POSITION_IDS,) if POSITION_IDS in known else ()
    return own + ((LOGIT_POSITIONS,) if "logits_to_keep" in known else ())


def _example_inputs(names: tuple[str, ...]) -> dict[str, torch.Tensor]:
    values = {
        "input_ids": torch.ones(ROWS, NEW, dtype=torch.long),
        "attention_mask": torch.ones(ROWS, PAST + NEW, dtype=torch.long),
        POSITION_IDS: torch.arange(PAST, PAST + NEW).repeat(ROWS, 1),
        LOGIT_POSITIONS: torch.arange(NEW),
    }
    return {name: values[name] for name in names}


def _example_keys_values(model: Model) -> list[torch.Tensor]:
    """Return the keys and values of a few tokens, each (rows, heads, positions, size)."""
    cache: Any = DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=torch.ones(ROWS, PAST, dtype=torch.long), past_key_values=cache)
    tensors = [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]
    if not tensors or any(tensor is None or tensor.dim() != 4 for tensor in tensors):
        raise ModelError("its cache holds more than keys and values")
    return tensors


def _make_stateful(graph: Any, past: list[str]) -> None:
    """Make keys and values a state of the graph, whose rows are gathered by ``beam_idx`` (rows,) before each pass."""
    from openvino import opset15 as ops
    from openvino._offline_transformations import apply_make_stateful_transformation

    picked = ops.parameter([-1], np.int32, name=ROW_INDICES)
    picked.output(0).get_tensor().add_names({ROW_INDICES})
    graph.add_parameters([picked])
    zero = ops.constant(np.int64(0))
    inputs = {given.any_name: given for given in graph.inputs}
    for name in past:
        readers = inputs[name].get_target_inputs()
        rows = ops.gather(inputs[name], picked, zero)
        for reader in readers:
            reader.replace_source_output(rows.output(0))
    graph.validate_nodes_and_infer_types()
    pairs = {name: name.replace("past", "present") for name in past}
    apply_make_stateful_transformation(graph, pairs)
    first = ops.constant(np.array([0], dtype=np.int64))
    rows = ops.gather(ops.shape_of(inputs["input_ids"], output_type="i64"), first, zero)
    for node in graph.get_ops():
        if node.get_type_name() == "ReadValue":
            _initialize_empty(node, rows)
    graph.validate_nodes_and_infer_types()


def _initialize_empty(node: Any, rows: object) -> None:
    from openvino import opset15 as ops

    shape = node.get_output_partial_shape(0)
    sizes = (shape[1].get_length(), 0, shape[3].get_length())
    fixed = [ops.constant(np.array([size], dtype=np.int64)) for size in sizes]
    node.set_arguments([ops.broadcast(ops.constant(np.float32(0)), ops.concat([rows, *fixed], 0))])
