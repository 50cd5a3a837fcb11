// The types of traces, summaries and messages, made from their schemas: `npm run types` writes them.
import { readFile, writeFile } from "node:fs/promises";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = new URL("../../", import.meta.url);

const TRACE_SCHEMA = "docs/trace.schema.json";
export const TYPES = {
  [TRACE_SCHEMA]: "visualizers/shared/trace.d.ts",
  "visualizers/summaries.schema.json": "visualizers/shared/summaries.d.ts",
  "playground/messages.schema.json": "playground/client/messages.d.ts",
};

export const readJson = async (path) => JSON.parse(await readFile(new URL(path, ROOT), "utf8"));

// The schema of a trace as the page gets it. Only an old file lacks a field with a default: the
// server reads it and sends all fields.
function requireAllFields(schema) {
  if (!schema || typeof schema !== "object") return;
  if (schema.properties) schema.required = Object.keys(schema.properties);
  Object.values(schema).forEach(requireAllFields);
}

// json-schema-to-typescript knows tuples by the keyword of older drafts only.
function renamePrefixItems(schema) {
  if (!schema || typeof schema !== "object") return;
  if (schema.prefixItems) {
    schema.items = schema.prefixItems;
    delete schema.prefixItems;
  }
  Object.values(schema).forEach(renamePrefixItems);
}

// A type of another schema is imported from its file, not written again.
function importTypes(schema, path) {
  if (!schema || typeof schema !== "object") return;
  const [file, name] = schema.$ref?.split("#/$defs/") ?? [];
  if (file) {
    const types = TYPES[posix.join(posix.dirname(path), file)];
    const place = posix.relative(posix.dirname(TYPES[path]), types).replace(/\.d\.ts$/, ".js");
    // Only the summaries are referred to as a whole.
    schema.tsType = `import("${place}").${name ?? "Shown"}`;
    delete schema.$ref;
  }
  for (const part of Object.values(schema)) importTypes(part, path);
}

export async function typesOf(path) {
  // Other tests need only the paths above, and loading the compiler takes a while.
  const { compile } = await import("json-schema-to-typescript");
  const schema = await readJson(path);
  if (path === TRACE_SCHEMA) requireAllFields(schema);
  renamePrefixItems(schema);
  importTypes(schema, path);
  return compile(schema, schema.title, {
    bannerComment: `// Made from ${path} by \`npm run types\`; a test compares the two.`,
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const [schema, types] of Object.entries(TYPES))
    await writeFile(new URL(types, ROOT), await typesOf(schema));
