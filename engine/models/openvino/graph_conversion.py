"""Convert a model's folder to an OpenVINO graph, in a subprocess because its memory is not freed otherwise."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.gguf_conversion import check_resources, check_weights_complete
from engine.models.model_types import Model, Tokenizer
from engine.models.openvino.graphs import GRAPH_FILE
from engine.models.subprocess_job import handle_job
from engine.models.tokenizers import load_tokenizer

MEASUREMENTS_FILE = "measured.json"
"""File in a graph's folder with its measured difference from the original model."""


def _convert_job(order: dict[str, Any]) -> None:
    """Convert a model and write its graph.

    Args:
        order: ``model``, its folder; ``folder``, the target; ``values``, the number of values in its
            weights; ``eight_bits``, whether to quantise its matrices.
    """
    import openvino

    from engine.models.openvino.int8_weights import quantize_to_int8
    from engine.models.openvino.tracer import trace_to_graph

    folder = Path(order["folder"])
    check_resources(order["values"], order["folder"], "float32")
    model = _load_model(order["model"])
    reason = conversion_refusal(model)
    if reason is not None:
        raise ModelError(reason)
    try:
        graph = trace_to_graph(model)
    except ModelError:
        raise
    except Exception as error:  # OpenVINO reports unsupported operations with many error types
        kind = type(error).__name__
        raise ModelError("one of its layers has no graph in OpenVINO ({kind})", kind=kind) from None
    # save_model rounds weights to float16 by default.
    openvino.save_model(graph, folder / GRAPH_FILE, compress_to_fp16=False)
    del graph
    tokenizer = load_tokenizer(order["model"])
    measured = check_difference(model, folder, tokenizer)
    if order["eight_bits"]:
        exact = folder / "exact"
        exact.mkdir()
        for path in folder.glob("graph.*"):
            path.rename(exact / path.name)
        graph = openvino.Core().read_model(exact / GRAPH_FILE)
        quantize_to_int8(graph)
        openvino.save_model(graph, folder / GRAPH_FILE, compress_to_fp16=False)
        del graph
        shutil.rmtree(exact)
        measured |= measure_int8_agreement(model, folder, tokenizer)
    (folder / MEASUREMENTS_FILE).write_text(json.dumps(measured) + "\n", "utf-8")
    shutil.copyfile(Path(order["model"]) / "config.json", folder / "config.json")


def _load_model(folder: str) -> Any:
    import torch

    from engine.models.meta_model import auto_class

    auto, _ = auto_class("it", folder)
    model, report = auto.from_pretrained(
        folder,
        dtype=torch.float32,
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=False,
        attn_implementation="sdpa",
        output_loading_info=True,
    )
    check_weights_complete(report)
    return model.eval()


def conversion_refusal(model: Model) -> str | None:
    """Return why a model cannot be converted, None if no reason is known.

    Args:
        model: with or without weights.
    """
    from engine.models.capabilities import capabilities_of
    from engine.models.layer_types import (
        RUNNING_STATES,
        has_growing_rotary_tables,
        layer_types,
    )

    can, config = capabilities_of(model), model.config.get_text_config(decoder=True)
    experts = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    if can.is_encoder_decoder:
        return "it is an encoder-decoder, and only decoders are converted"
    if can.reads != "text" or can.cache_name is None or can.own_generate:
        return "it keeps no keys and values that a graph could keep"
    has_states = not RUNNING_STATES.isdisjoint(layer_types(model.config))
    if has_states or not can.can_crop or can.cache_name != "past_key_values":
        return "its layers keep a running state, or a cache that cannot be cut"
    # A trace would fix what its example did: these rules depend on the text's length or content.
    if has_growing_rotary_tables(config):
        return "its positions are counted in another way where a text is long"
    if any((getattr(config, name, None) or 0) > 1 for name in experts):
        return "which of its experts read a token is decided while it runs"
    return None


def check_difference(model: Model, folder: Path, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the largest logit difference between a graph and its model.

    Args:
        model: the model with its weights.
        folder: the graph's folder.
        tokenizer: the model's tokenizer, or None.

    Raises:
        ModelError: the difference exceeds the tolerance.
    """
    from engine.models.openvino.comparison import TOLERANCE, largest_difference, probe_ids

    ids = probe_ids(tokenizer, model.config.get_text_config(decoder=True).vocab_size)
    apart = largest_difference(model, _to_graph_model(model, folder), ids)
    if not apart <= TOLERANCE:
        raise ModelError(
            "its graph's logits are {apart} from its own; at most {near} pass",
            apart=f"{apart:.2g}",
            near=f"{TOLERANCE:g}",
        )
    return {"largest_logit_difference": float(f"{apart:.3g}")}


def measure_int8_agreement(model: Model, folder: Path, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return how well a quantised graph agrees with its model; arguments as in ``check_difference``."""
    from engine.models.openvino.comparison import measure_agreement, probe_ids

    ids = probe_ids(tokenizer, model.config.get_text_config(decoder=True).vocab_size)
    return measure_agreement(model, _to_graph_model(model, folder), ids)


def _to_graph_model(model: Model, folder: Path) -> Any:
    import copy

    import torch

    from engine.models.openvino.graphs import ModelGraphs
    from engine.models.openvino.model import to_graph_model

    with torch.device("meta"):
        empty = type(model)(copy.deepcopy(model.config))
    return to_graph_model(empty, ModelGraphs(folder))


if __name__ == "__main__":
    handle_job(_convert_job)
