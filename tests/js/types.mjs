// The types of traces and messages, made from their schemas: `npm run types` writes them.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

export const ROOT = new URL("../../", import.meta.url);

export const TYPES = {
  "docs/trace.schema.json": "visualizers/shared/trace.d.ts",
  "playground/messages.schema.json": "playground/client/messages.d.ts",
};

export const readJson = async (path) => JSON.parse(await readFile(new URL(path, ROOT), "utf8"));

export async function typesOf(path) {
  const schema = await readJson(path);
  const from = new URL(`${path.slice(0, path.lastIndexOf("/"))}/`, ROOT);
  return compile(schema, schema.title, {
    cwd: fileURLToPath(from),
    bannerComment: `// Made from ${path} by \`npm run types\`; a test compares the two.`,
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const [schema, types] of Object.entries(TYPES))
    await writeFile(new URL(types, ROOT), await typesOf(schema));
