// The types of traces, summaries and messages, made from their schemas: `npm run types` writes them.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

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

async function readSchema(path) {
  const schema = await readJson(path);
  if (path === TRACE_SCHEMA) requireAllFields(schema);
  renamePrefixItems(schema);
  return schema;
}

export async function typesOf(path) {
  const schema = await readSchema(path);
  const from = new URL(`${path.slice(0, path.lastIndexOf("/"))}/`, ROOT);
  return compile(schema, schema.title, {
    cwd: fileURLToPath(from),
    // A schema that another refers to is read by the same rules.
    $refOptions: { resolve: { file: { read: ({ url }) => readSchema(pathOf(url)) } } },
    bannerComment: `// Made from ${path} by \`npm run types\`; a test compares the two.`,
  });
}

const pathOf = (url) => fileURLToPath(new URL(url, "file:")).slice(fileURLToPath(ROOT).length);

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const [schema, types] of Object.entries(TYPES))
    await writeFile(new URL(types, ROOT), await typesOf(schema));
