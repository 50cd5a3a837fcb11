"""Modules become one, in one of the few forms that are joined, or are refused by name."""

from __future__ import annotations

import re

import pytest

from visualizers.bundle import BundleError, bundle_modules


def test_modules_are_joined_behind_those_they_import_and_keep_their_scope():
    modules = {
        "a/index.mjs": 'import { b as other, c } from "../b.mjs";\nexport const page = other + c();\n',
        "b.mjs": 'export { c } from "./c.mjs";\nconst page = 1;\nexport const b = page;\n',
        "c.mjs": "export function c() {\n  return 2;\n}\n",
        "d.mjs": "not joined",
    }
    joined = bundle_modules(modules, "a/index.mjs")
    assert "not joined" not in joined
    assert [joined.index(f"// {name}") for name in ("c.mjs", "b.mjs", "a/index.mjs")] == sorted(
        joined.index(f"// {name}") for name in list(modules)[:3]
    )
    assert re.findall(r"^export .*", joined, re.MULTILINE) == ["export const { page } = module2;"]
    assert "const { b: other, c } = module1;" in joined


@pytest.mark.parametrize(
    "text",
    [
        'import * as b from "./b.mjs";',
        'import b from "./b.mjs";',
        'import { c } from "./c.mjs";',
        'import { a } from "./a.mjs";',
        "export default 1;",
        "export let b = 1;",
        "export { b };",
    ],
)
def test_other_forms_are_refused(text):
    with pytest.raises(BundleError, match=r"^a\.mjs "):
        bundle_modules({"a.mjs": f"{text}\n", "b.mjs": "export const b = 1;\n"}, "a.mjs")
