// The recorded runs that tests look at, with what Python computes of them.
import { execFileSync } from "node:child_process";
import { readdir } from "node:fs/promises";
import { ROOT } from "./types.mjs";

const FOLDER = new URL("assets/gallery/", ROOT);

// Two of each strategy, and one with a thinking section.
export const names = (await readdir(FOLDER))
  .filter((name) => /-[12]\.json\.gz$|^greedy-smollm2-3\./.test(name))
  .map((name) => name.slice(0, -".json.gz".length));

/**
 * By name, the run in rows, what every picture shows of every step, and the twins of what the page computes.
 * @returns {string} JSON
 */
export const computeNumbers = () =>
  execFileSync(process.env.PYTHON ?? "python3", ["-m", "tests.helpers.numbers", ...names], {
    cwd: ROOT,
    maxBuffer: 2 ** 28,
    encoding: "utf8",
  });
