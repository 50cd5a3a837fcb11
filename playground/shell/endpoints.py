"""Endpoints for programs, described by JSON schemas; uses Gradio's internals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gradio.components.api_component import Api
from gradio.context import Context
from gradio.events import api


@dataclass(frozen=True)
class EndpointInput:
    """One input of an endpoint.

    Attributes:
        schema: its JSON schema.
        example: a value for the snippets that Gradio writes; they use the default instead, if there is one.
        default: the value if a call leaves it out; None for that of the function.
    """

    schema: Mapping[str, Any]
    example: Any = None
    default: Any = None


def add_typed_endpoint(
    handler: Callable[..., Any],
    name: str,
    inputs: Mapping[str, EndpointInput],
    result: Mapping[str, Any],
    **options: Any,
) -> None:
    """Register an endpoint of the page that is being built.

    Args:
        handler: a function with type hints and a docstring, which describes the endpoint.
        name: the endpoint's name.
        inputs: the handler's parameters, in order.
        result: JSON schema of what it returns.
        options: options of the Gradio event.
    """
    event = api(handler, api_name=name, **options)
    assert Context.root_block is not None
    made = Context.root_block.fns[event["id"]]
    for component, (label, declared) in zip(made.inputs, inputs.items(), strict=True):
        _describe(component, label, declared)
    [answer] = made.outputs
    _describe(answer, "result", EndpointInput(result))


def _describe(component: Any, label: str, declared: EndpointInput) -> None:
    # Gradio knows Python's types only, which say nothing of ranges and names.
    assert isinstance(component, Api)
    component.label, component._api_info = label, dict(declared.schema)
    component.value = declared.default if declared.default is not None else component.value
    component.example_payload = component.example_value = lambda: declared.example
