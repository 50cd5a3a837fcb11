// `npm test`: all tests of scripts. Importing torch and computing the numbers of the recorded runs takes
// longer than most files of tests, so it happens once.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { computeNumbers } from "./numbers.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "numbers-"));
const NUMBERS_FILE = join(folder, "numbers.json");
try {
  writeFileSync(NUMBERS_FILE, computeNumbers());
  const files = readdirSync(HERE).filter((name) => name.endsWith(".test.mjs"));
  const options = ["--test", "--test-reporter=dot", ...files.map((name) => join(HERE, name))];
  const env = { ...process.env, NUMBERS_FILE };
  process.exitCode = spawnSync(process.execPath, options, { stdio: "inherit", env }).status ?? 1;
} finally {
  rmSync(folder, { recursive: true });
}
