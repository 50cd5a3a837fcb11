"""The custom_generate folder: a loop's source files, flattened, which need transformers only."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
from functools import lru_cache
from pathlib import Path

from engine.errors import ExportError
from engine.export.plan import Plan
from engine.loops.recorder import Recorder
from engine.python_source import parse_module

_ENTRY_TEMPLATE = '''"""{title}: a decoding loop for transformers' generate(), from the Decoding Playground.

{summary}

Call: model.generate(ids, generation_config=..., custom_generate="path/to/{folder}",
                     trust_remote_code=True, seed=0{call})

The other files here are the loop and what it needs, unchanged but for their import lines.
Source: {paper}.
"""

from typing import Any

import torch
from torch.nn.functional import pad

{imports}

ARGUMENTS = {arguments!r}
ONE_BY_ONE = {one_by_one!r}


def generate(
    model: Any,
    inputs: Any = None,
    generation_config: Any = None,
    seed: int = 0,
    ids_only: bool = False,
    on_step: Any = None,
    **arguments: Any,
) -> Any:
    """Decode with the loop of this folder.

    Args:
        model: a generation model of transformers.
        inputs: (1, length) prompt ids.
        generation_config: its fields keep their meaning.
        seed: of the run's own random numbers; the global ones are not used.
        ids_only: return the ids alone, as a pipeline wants them.
        on_step: called with the record of every decision, if given.
        arguments: the loop's own arguments ({names}) and generate()'s.

    Returns:
        (sequences, length) ids, or an object with ``sequences`` and their ``lengths``.
    """
    own = {{name: arguments.pop(name) for name in ARGUMENTS if name in arguments}}
    for name in ("assistant_model", "tokenizer", "assistant_tokenizer"):
        value = arguments.pop(name, None)
        if name in TAKEN:
            own[name] = value
    arguments = {{name: value for name, value in arguments.items() if value is not None}}
    generator = torch.Generator(model.device).manual_seed(seed)

    def recipe(
        model: Any,
        input_ids: Any,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **model_kwargs: Any,
    ) -> Any:
        steps = loop(
            model,
            input_ids,
            logits_processor,
            stopping_criteria,
            generation_config,
            recorder=Recorder(),
            generator=generator,
            **own,
            **model_kwargs,
        )
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return end.value
            if on_step is not None:
                on_step(step)

    def once(config: Any) -> Any:
        # The class's generate(): a model's folder may have replaced the instance's own.
        made = type(model).generate(
            model, inputs, generation_config=config, custom_generate=recipe, **arguments
        )
        return getattr(made, "sequences", made) if ids_only else made

    count = generation_config.num_return_sequences or 1
    if not ONE_BY_ONE or count == 1:
        return once(generation_config)
    # The sequences of a batch would influence each other, so they are decoded one by one.
    generation_config.num_return_sequences = 1
    rows = [once(generation_config)[0] for _ in range(count)]
    generation_config.num_return_sequences = count
    longest, fill = max(map(len, rows)), generation_config.pad_token_id or 0
    return torch.stack([pad(row, (0, longest - len(row)), value=fill) for row in rows])
'''
_RECORDER_MODULE = Recorder.__module__
_CALL_ARGUMENTS = ("assistant_model", "tokenizer", "assistant_tokenizer")


def folder_files(plan: Plan) -> dict[str, str]:
    """Return path -> text of the folder's files, README included; empty if no folder is needed.

    Raises:
        ExportError: the source of the loop is not in this installation.
    """
    if plan.method is not None:
        return {path: data.decode("utf-8", "replace") for path, data in plan.method.files.items()}
    if plan.own is None:
        return {}
    loop = plan.own.loop
    modules = _import_closure((loop.__module__, _RECORDER_MODULE))
    files = {
        f"custom_generate/{_flat_module_name(n)}.py": _rewrite_imports(n) for n in sorted(modules)
    }
    files["custom_generate/generate.py"] = _entry_source(plan)
    files["custom_generate/requirements.txt"] = _requirements_text(plan)
    files["README.md"] = _readme_text(plan, files)
    return files


def folder_sha256(files: dict[str, str]) -> str:
    """Return the SHA-256 of the folder's Python files, which the exported code checks."""
    # The exported script hashes the folder in the same way: ``_folder_check_code`` in script.py.
    total = hashlib.sha256()
    for path in sorted(files):
        name = path.removeprefix("custom_generate/")
        if name.endswith(".py"):
            total.update(name.encode() + b"\0" + files[path].encode() + b"\0")
    return total.hexdigest()


def _entry_source(plan: Plan) -> str:
    own = plan.own
    assert own is not None
    names = list(inspect.signature(own.loop).parameters)
    taken = [name for name in _CALL_ARGUMENTS if name in names]
    # transformers' loader copies only files that an import statement names.
    imports = [f"from .{_flat_module_name(own.loop.__module__)} import {own.loop.__name__} as loop"]
    imports.append(f"from .{_flat_module_name(_RECORDER_MODULE)} import {Recorder.__name__}")
    call = "".join(f", {name}=..." for name in [*plan.loop_values, *taken])
    text = _ENTRY_TEMPLATE.format(
        title=plan.strategy.title,
        summary=plan.strategy.summary,
        folder=plan.folder_name,
        paper=plan.strategy.paper,
        call=call,
        imports="\n".join(imports),
        arguments=tuple(plan.loop_values),
        one_by_one=plan.strategy.one_by_one,
        names=", ".join([*plan.loop_values, *taken]) or "none",
    )
    return text.replace("ONE_BY_ONE = ", f"TAKEN = {tuple(taken)!r}\nONE_BY_ONE = ", 1)


def _requirements_text(plan: Plan) -> str:
    version = plan.trace.versions.get("transformers", "")
    return f"transformers=={version}\n" if _is_version(version) else "transformers\n"


def _is_version(text: str) -> bool:
    return bool(text) and all(part.isdecimal() for part in text.split("."))


def _readme_text(plan: Plan, files: dict[str, str]) -> str:
    assert plan.own is not None
    sums = "\n".join(
        f"- `{path}` {hashlib.sha256(text.encode()).hexdigest()}" for path, text in files.items()
    )
    return (
        f"# {plan.strategy.title} as a custom_generate folder\n\n{plan.strategy.summary}\n\n"
        f"Why it is here: {plan.own.why}.\n\n"
        f'Use: `model.generate(ids, custom_generate="{plan.folder_name}", trust_remote_code=True, '
        "seed=0)`. It needs transformers and torch, nothing else. Licence: Apache-2.0.\n\n"
        f"SHA-256 of its files:\n\n{sums}\n"
    )


def _flat_module_name(module: str) -> str:
    """Return the flat file name of an engine module: engine.loops.rows becomes loops_rows."""
    # Two modules of one folder must not get the same flat name.
    return module.removeprefix("engine.").replace(".", "_")


@lru_cache(maxsize=64)
def _import_closure(roots: tuple[str, ...]) -> frozenset[str]:
    """Return the engine modules that `roots` import, directly or indirectly, and the roots."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [module for _, module, _ in _engine_imports(_module_source(name)) if module]
    return frozenset(found)


@lru_cache(maxsize=128)
def _module_source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin or not module.startswith("engine."):
        raise ExportError("The source of {module} is not in this installation.", module=module)
    return Path(spec.origin).read_text()


def _engine_imports(source: str) -> list[tuple[ast.stmt, str, str]]:
    """Return (statement, module, replacement) of every ``from engine… import …`` statement.

    Imports for type checkers only are left out: their replacement is ``pass``, their module empty.
    """
    found: list[tuple[ast.stmt, str, str]] = []
    tree = parse_module(source)
    guarded = [n for n in ast.walk(tree) if isinstance(n, ast.If) and _is_for_types(n.test)]
    for_types = {id(node) for block in guarded for node in block.body}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) in for_types:
            # transformers refuses a folder that names a missing package, as _typeshed always is.
            found.append((node, "", "pass"))
            continue
        # "import engine.x" is not rewritten, so loops must use "from … import …".
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("engine"):
            continue
        assert node.module is not None
        names = ", ".join(f"{a.name} as {a.asname}" if a.asname else a.name for a in node.names)
        package = importlib.util.find_spec(node.module)
        if package is not None and package.submodule_search_locations is not None:
            # "from engine.loops import layers" imports a submodule. Only one per statement works here.
            (alias,) = node.names
            module = f"{node.module}.{alias.name}"
            found.append(
                (
                    node,
                    module,
                    f"from . import {_flat_module_name(module)} as {alias.asname or alias.name}",
                )
            )
        else:
            found.append(
                (node, node.module, f"from .{_flat_module_name(node.module)} import {names}")
            )
    return found


def _is_for_types(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


@lru_cache(maxsize=128)
def _rewrite_imports(module: str) -> str:
    """Return a module's source with its engine imports made relative and flat."""
    lines = _module_source(module).splitlines()
    # From the last statement to the first, so that earlier line numbers stay valid.
    for node, _, replacement in sorted(
        _engine_imports("\n".join(lines)), key=lambda entry: -entry[0].lineno
    ):
        indent = lines[node.lineno - 1][: node.col_offset]
        lines[node.lineno - 1 : node.end_lineno] = [f"{indent}{replacement}"]
    return "\n".join(lines) + "\n"
