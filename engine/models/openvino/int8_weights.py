"""Quantise a graph's matrices to 8 bits, with one scale and one zero point per row.

Written with OpenVINO's own operations: nncf would add scipy, scikit-learn and pandas.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_MIN_VALUES = 1024
"""Matrices with fewer values are not quantised."""
_LEVELS = 255


def quantize_to_int8(graph: Any) -> None:
    """Quantise a graph's matrices to unsigned bytes, which OpenVINO's kernels multiply directly.

    Args:
        graph: an openvino.Model; changed in place.
    """
    found: dict[str, tuple[Any, list[tuple[Any, bool]]]] = {}
    for node in graph.get_ops():
        kind = node.get_type_name()
        if kind not in ("MatMul", "Gather"):
            continue
        port = 1 if kind == "MatMul" else 0
        source = node.input_value(port).get_node()
        if source.get_type_name() != "Constant" or len(source.get_output_shape(0)) != 2:
            continue
        shape = source.get_output_shape(0)
        if (
            shape[0] * shape[1] >= _MIN_VALUES
            and source.get_element_type().get_type_name() == "f32"
        ):
            by_rows = kind == "Gather" or node.get_attributes()["transpose_b"]
            found.setdefault(source.get_name(), (source, []))[1].append((node, by_rows))
    # Tied weights have several readers, which must share one quantised copy.
    for source, readers in found.values():
        _replace_constant(source, readers)
    graph.validate_nodes_and_infer_types()


def _replace_constant(source: Any, readers: list[tuple[Any, bool]]) -> None:
    from openvino import opset15 as ops

    values = source.get_data()
    for by_rows in {by_rows for _, by_rows in readers}:
        # Rows of the stored matrix are outputs, since each output has its own scale.
        packed = _quantized_constant(values if by_rows else np.ascontiguousarray(values.T))
        for node, own in readers:
            if own != by_rows:
                continue
            if by_rows:
                port = 1 if node.get_type_name() == "MatMul" else 0
                node.input(port).replace_source_output(packed.output(0))
            else:
                left = node.input_value(0)
                flipped = node.get_attributes()["transpose_a"]
                product = ops.matmul(left, packed, flipped, True)
                _redirect_output(node, product)


def _redirect_output(old: Any, new: Any) -> None:
    for name in old.output(0).get_names():
        new.output(0).get_tensor().add_names({name})
    for reader in old.output(0).get_target_inputs():
        reader.replace_source_output(new.output(0))


def _quantized_constant(values: np.ndarray) -> Any:
    """Return a node that dequantises bytes to (rows, columns) values, with a separate range per row."""
    from openvino import opset15 as ops

    # Each range includes 0, so that zero weights stay exact.
    low = np.minimum(values.min(1, keepdims=True), 0.0)
    high = np.maximum(values.max(1, keepdims=True), 0.0)
    # A row of zeros has no range to divide by.
    scale = np.maximum((high - low) / _LEVELS, np.finfo(np.float32).tiny).astype(np.float32)
    zero = np.clip(np.round(-low / scale), 0, _LEVELS)
    bytes_ = np.clip(np.round(values / scale) + zero, 0, _LEVELS).astype(np.uint8)
    plain = ops.subtract(
        ops.convert(ops.constant(bytes_), "f32"),
        ops.convert(ops.constant(zero.astype(np.uint8)), "f32"),
    )
    return ops.multiply(plain, ops.constant(scale))
