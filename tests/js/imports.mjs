// The order of the client's folders, and the imports that go against it.
import { readdir, readFile } from "node:fs/promises";
import { ROOT } from "./types.mjs";

const CLIENT = "playground/client/";
// Each may import from itself and from those after it.
const ORDER = [
  "index.mjs",
  "notebook",
  "tabs",
  "rooms",
  "lessons",
  "inspect",
  "runs",
  "forms",
  "jobs",
  "shell",
];
// The types of the messages, which every folder may name.
const TYPES = "messages.js";
// An import, a re-export, an @import of types, an import() and the import() of a type.
const IMPORT = /(?:^|\n|@)(?:import|export)\b[^;"]*?"(\.[^"]+)"|\bimport\("(\.[^"]+)"\)/g;

/** Return the client's scripts, path -> text. */
export async function readScripts() {
  const names = await readdir(new URL(CLIENT, ROOT), { recursive: true });
  const scripts = names.filter((name) => name.endsWith(".mjs")).map((name) => CLIENT + name);
  const texts = scripts.map((path) => readFile(new URL(path, ROOT), "utf8"));
  return new Map((await Promise.all(texts)).map((text, i) => [scripts[i], text]));
}

/**
 * Return one sentence for every import that goes against the order.
 * @param {Map<string, string>} scripts path -> text
 */
export function wrongImports(scripts) {
  return [...scripts].flatMap(([path, text]) =>
    [...text.matchAll(IMPORT)].flatMap(([, stated, called]) => {
      const target = new URL(stated ?? called, `file:///${path}`).pathname.slice(1);
      return findFault(path, target);
    }),
  );
}

function findFault(path, target) {
  const folderOf = (name) => name.slice(CLIENT.length).split("/")[0];
  const [from, to] = [folderOf(path), folderOf(target)];
  if (!target.startsWith(CLIENT) || to === TYPES) return [];
  if (!ORDER.includes(from)) return [`${path}: the order of the folders lacks ${from}.`];
  const allowed = ORDER.slice(ORDER.indexOf(from));
  if (allowed.includes(to)) return [];
  return [`${path} imports ${target}: ${from} may import from ${allowed.join(", ")} only.`];
}
