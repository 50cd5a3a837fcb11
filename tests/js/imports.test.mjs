// The client's folders import one way only.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readScripts, wrongImports } from "./imports.mjs";

test("every import goes down the order of the folders", async () => {
  const scripts = await readScripts();
  assert.ok(scripts.size > 100);
  assert.deepEqual(wrongImports(scripts), []);
});

test("an import that goes up is named with its file", () => {
  const fault = (path, text) => wrongImports(new Map([[path, text]]));
  const up = `import { one } from "../runs/links.mjs";\nimport {\n  two,\n} from "../tabs/draws.mjs";\n`;
  assert.deepEqual(fault("playground/client/forms/field.mjs", up), [
    "playground/client/forms/field.mjs imports playground/client/runs/links.mjs: forms may import from forms, jobs, shell only.",
    "playground/client/forms/field.mjs imports playground/client/tabs/draws.mjs: forms may import from forms, jobs, shell only.",
  ]);
  assert.equal(
    fault("playground/client/shell/a.mjs", 'await import("../jobs/job.mjs");').length,
    1,
  );
  assert.equal(fault("playground/client/new/a.mjs", 'export * from "../shell/ids.mjs";').length, 1);
  assert.equal(fault("playground/client/tabs/a.mjs", 'import "../index.mjs";').length, 1);
  const types = '/** @import { Field } from "../forms/field.mjs" */';
  assert.equal(fault("playground/client/shell/a.mjs", types).length, 1);
  assert.deepEqual(fault("playground/client/index.mjs", 'import "./tabs/draws.mjs";'), []);
});
