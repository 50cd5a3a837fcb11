// The types of traces, summaries and messages, made from their schemas, and the index of the views in
// the folders of `visualizers`: `npm run types` writes them.
import { readdir, readFile, writeFile } from "node:fs/promises";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = new URL("../../", import.meta.url);

const TRACE_SCHEMA = "docs/trace.schema.json";
const SUMMARIES_SCHEMA = "visualizers/summaries.schema.json";
export const VIEW_INDEX = "visualizers/stage/view_index.mjs";
const EXPORTED_VIEW = /^\/\*\* @type \{ViewSpec\} \*\/\nexport const (\w+)/m;
export const TYPES = {
  [TRACE_SCHEMA]: "visualizers/shared/trace.d.ts",
  [SUMMARIES_SCHEMA]: "visualizers/shared/summaries.d.ts",
  "playground/messages.schema.json": "playground/client/messages.d.ts",
};

export const readJson = async (path) => JSON.parse(await readFile(new URL(path, ROOT), "utf8"));

// The files of the views' folders that end like this.
async function listViewFiles(ending) {
  const paths = await readdir(new URL("visualizers/", ROOT), { recursive: true });
  return paths.filter((path) => path.endsWith(ending)).sort();
}

// A schema; that of the summaries is put together from those of the views' folders.
export async function readSchema(path) {
  const schema = await readJson(path);
  if (path !== SUMMARIES_SCHEMA) return schema;
  const paths = await listViewFiles("/summary.schema.json");
  const parts = await Promise.all(paths.map((part) => readJson(`visualizers/${part}`)));
  schema.properties = Object.assign({}, ...parts.map((part) => part.properties));
  schema.$defs = Object.assign({}, ...parts.map((part) => part.$defs));
  return schema;
}

// The module that imports every view that a folder exports, by its name in Python.
export async function viewIndex() {
  const found = [];
  for (const path of await listViewFiles(".mjs")) {
    const text = await readFile(new URL(`visualizers/${path}`, ROOT), "utf8");
    const [, view] = EXPORTED_VIEW.exec(text) ?? [];
    // The stage knows its own views.
    if (view && !path.startsWith("stage/")) found.push([view, path]);
  }
  const named = found.map(([view]) => {
    const name = view.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    return name === view ? `  ${view},` : `  ${name}: ${view},`;
  });
  return [
    "// Made from the views of the folders by `npm run types`; a test compares the two.",
    ...found.map(([view, path]) => `import { ${view} } from "../${path}";`),
    "\nexport const FOLDER_VIEWS = {",
    ...named,
    "};\n",
  ].join("\n");
}

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
  const schema = await readSchema(path);
  if (path === TRACE_SCHEMA) requireAllFields(schema);
  renamePrefixItems(schema);
  importTypes(schema, path);
  return compile(schema, schema.title, {
    bannerComment: `// Made from ${path} by \`npm run types\`; a test compares the two.`,
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [schema, types] of Object.entries(TYPES))
    await writeFile(new URL(types, ROOT), await typesOf(schema));
  await writeFile(new URL(VIEW_INDEX, ROOT), await viewIndex());
}
