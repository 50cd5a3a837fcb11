"""Endpoints for programs, described by JSON schemas; uses Gradio's internals."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gradio.blocks import Blocks
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
    root = Context.root_block
    assert root is not None
    endpoint = root.fns[event["id"]]
    for component, (label, declared) in zip(endpoint.inputs, inputs.items(), strict=True):
        _describe(component, label, declared)
    [answer] = endpoint.outputs
    _describe(answer, "result", EndpointInput(result))
    endpoint.inputs = [_share_component(root, one) for one in endpoint.inputs]
    endpoint.outputs = [_share_component(root, answer)]


def keep_schemas_from_browsers(blocks: Blocks) -> None:
    """Leave the endpoints' schemas out of the configuration of the page; programs still read them.

    Gradio sends every component's schema four times to every browser, which uses none of them.
    """
    whole = blocks.get_config_file

    def get_config_file() -> Any:
        config = whole()
        for component in config["components"]:
            if component["type"] == "api":
                for name in ("api_info", "api_info_as_input", "api_info_as_output"):
                    component.pop(name, None)
                component["props"].pop("_api_info", None)
        return config

    def get_api_info(*args: Any, **options: Any) -> Any:
        described = copy.copy(blocks)
        described.config = whole()
        return Blocks.get_api_info(described, *args, **options)

    # By name, as a type checker refuses to assign methods.
    vars(blocks).update(get_config_file=get_config_file, get_api_info=get_api_info)
    blocks.config = get_config_file()


def _share_component(root: Blocks, component: Any) -> Any:
    """Return an equal component of another endpoint and remove this one; itself if there is none."""
    # Every browser is sent every component of a page.
    own = _description(component)
    for other in root.blocks.values():
        if isinstance(other, Api) and other is not component and _description(other) == own:
            del root.blocks[component._id]
            component.parent.children.remove(component)
            return other
    return component


def _description(component: Api) -> tuple[object, ...]:
    return component.label, component._api_info, component.value, component.example_value()


def _describe(component: Any, label: str, declared: EndpointInput) -> None:
    # Gradio knows Python's types only, which say nothing of ranges and names.
    assert isinstance(component, Api)
    component.label, component._api_info = label, dict(declared.schema)
    component.value = declared.default if declared.default is not None else component.value
    component.example_payload = component.example_value = lambda: declared.example
