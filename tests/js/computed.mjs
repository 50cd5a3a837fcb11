// What the page's scripts compute themselves, found by the tags of their functions, and arithmetic on a
// record's numbers that stands outside of such functions. `npm run computed` writes the list.
import { readdir, readFile, writeFile } from "node:fs/promises";
import { numbers } from "./traces.mjs";
import { ROOT, readJson } from "./types.mjs";

export const LIST = "docs/computed.md";
const FOLDERS = ["visualizers/", "playground/client/"];
const HEAD = `# What the page computes itself

Every number of a picture is computed once, in Python, by its \`summary.py\`, and the page looks it up. This list, which
\`npm run computed\` writes from the scripts, has the exceptions; a test fails when arithmetic on a record's numbers
stands anywhere else.
`;
const DECLARED = /^(export )?(?:async )?(?:const|let|function|class) (\w+)/;
const ARITHMETIC = /\bMath\.(?:exp|expm1|log|log2|log10|log1p|pow|sqrt)\b|\*\*|\.reduce\(/;
// An order is no number; two of a kind may be told apart by it.
const ORDER = /\(a, b\) => [ab](\.[\w.]+) - [ab]\1/g;

/**
 * A declaration at the top of a module with the comment before it.
 * @typedef {{ file: string, name: string, exported: boolean, about: string, lines: [number, string][] }} Part
 */

/** @returns {Promise<Part[]>} */
export async function parts() {
  const found = [];
  for (const folder of FOLDERS) {
    const names = await readdir(new URL(folder, ROOT), { recursive: true });
    for (const name of names.filter((n) => n.endsWith(".mjs")).sort())
      found.push(...partsOf(folder + name, await readFile(new URL(folder + name, ROOT), "utf8")));
  }
  return found;
}

/** @returns {Part[]} */
export function partsOf(file, text) {
  const found = [];
  let about = [];
  for (const [i, line] of text.split("\n").entries()) {
    const declared = DECLARED.exec(line);
    if (declared) {
      const [, exported, name] = declared;
      found.push({ file, name, exported: Boolean(exported), about: about.join("\n"), lines: [] });
    }
    about = /^(\/\*\*| \*|\/\/)/.test(line) ? [...about, line] : [];
    if (found.length && !about.length) found.at(-1).lines.push([i + 1, line]);
  }
  return found;
}

export const twinOf = ({ about }) => /@computed ([\w.]+)/.exec(about)?.[1];
export const isDrawing = ({ about }) => /@drawing\b/.test(about);

// Names of a record's and of a summary's numbers, whole numbers apart: those count and point.
export async function namesOfNumbers() {
  const { $defs } = await readJson("docs/trace.schema.json");
  const holds = ({ type = [], anyOf = [] }) => type.includes("number") || anyOf.some(holds);
  const fields = Object.values($defs).flatMap(({ properties = {} }) => Object.entries(properties));
  const names = fields.filter(([, field]) => holds(field)).map(([name]) => name);
  for (const run of Object.values(numbers)) for (const step of run.shown) collect(step, names);
  return new Set(names);
}

function collect(value, names) {
  for (const [name, inner] of Object.entries(value)) {
    const all = [inner].flat(2);
    if (all.some((x) => typeof x === "number" && !Number.isInteger(x))) names.push(name);
    for (const deeper of all) if (deeper && typeof deeper === "object") collect(deeper, names);
  }
}

/** Lines that compute with a record's numbers where no tag says so. */
export function untagged(all, names) {
  const field = `(?:${[...names].join("|")})`;
  const behind = new RegExp(`[*/+-]\\s*(?:\\w+\\??\\.|\\w+\\[\\w+\\]\\.)*${field}\\b(?!\\s*[:(])`);
  const before = new RegExp(`(?<![\\w"'-])${field}\\)?\\s*(?:[*/]|[+-](?![+-]))(?!=)`);
  // A module whose exports are all computed may have helpers.
  const whole = new Set(all.filter(twinOf).map(({ file }) => file));
  for (const part of all) if (part.exported && !twinOf(part)) whole.delete(part.file);
  return all
    .filter((part) => !twinOf(part) && !isDrawing(part) && !whole.has(part.file))
    .flatMap(({ file, lines }) => lines.map(([number, line]) => [file, number, bare(line)]))
    .filter(([, , line]) => [ARITHMETIC, behind, before].some((rule) => rule.test(line)))
    .map(([file, number, line]) => `${file}:${number}: ${line}`);
}

// What is left of a line without comments, texts and regular expressions; what a template computes stays.
const bare = (line) =>
  line
    .trim()
    .replace(/^(\/?\*|\/\/).*/, "")
    .replace(/\/\*.*?\*\//g, "")
    .replace(/(^|[\s(=])\/(?![\s*/]).*?[^\\]\/[gimsuvy]*(?=[\s,;).]|$)/g, "$1_")
    .replace(/"(?:[^"\\]|\\.)*"/g, '""')
    .replace(/`[^`]*`/g, (text) => [...text.matchAll(/\$\{([^}]*)\}/g)].map((m) => m[1]).join(";"))
    .replace(ORDER, "");

const words = (about) =>
  about
    .replace(/^\/\*\*|\*\/$/gm, "")
    .replace(/^ ?\* ?/gm, "")
    .replace(/^@.*$/gm, "")
    .replace(/^\/\/ ?/gm, "")
    .trim()
    .replace(/\s*\n\s*/g, " ");

export function listOf(all) {
  const row = (part, ...cells) => `| \`${part.name}\` | ${part.file} | ${cells.join(" | ")} |`;
  const computed = all.filter(twinOf).map((p) => row(p, `\`${twinOf(p)}\``, words(p.about)));
  const drawings = all.filter(isDrawing).map((p) => row(p, words(p.about)));
  return [
    HEAD,
    "## With a twin in Python",
    "",
    "Both are compared on the recorded runs of the gallery, and a step's decision on runs that a test decodes.",
    "",
    "| function | module | twin | why |\n|---|---|---|---|",
    ...computed,
    "",
    "## Only drawn",
    "",
    "From a number to a place, a length, a colour or words.",
    "",
    "| function | module | what |\n|---|---|---|",
    ...drawings,
    "",
  ].join("\n");
}

if (process.argv[1].endsWith("computed.mjs"))
  await writeFile(new URL(LIST, ROOT), listOf(await parts()));
