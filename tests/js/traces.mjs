// Recorded runs with what Python computes of them, and the messages that the server would have sent.
import { execFileSync } from "node:child_process";
import { readdir } from "node:fs/promises";
import { ROOT } from "./types.mjs";

const FOLDER = new URL("assets/gallery/", ROOT);

// Two of each strategy: Python computes their numbers for every file of tests.
export const names = (await readdir(FOLDER))
  .filter((name) => /-[12]\.json\.gz$/.test(name))
  .map((name) => name.slice(0, -".json.gz".length));

// By name: the run in rows, what every picture shows of every step, and the twins of what the page computes.
export const numbers = JSON.parse(
  execFileSync(process.env.PYTHON ?? "python3", ["-m", "tests.helpers.numbers", ...names], {
    cwd: ROOT,
    maxBuffer: 2 ** 28,
    encoding: "utf8",
  }),
);

const shownOf = new WeakMap();

export async function open(name) {
  const trace = structuredClone(numbers[name].trace);
  shownOf.set(trace, numbers[name].shown);
  return trace;
}

const ENDING = ["outputs", "metrics", "timing", "notes", "pieces"];

// What the server sends of a recorded run.
export const recorded = (trace) => ({ trace, shown: shownOf.get(trace) });

// Start, one message a step, finish.
export function messagesOf(trace, run = "a") {
  const { steps, outputs: _, templates, ...known } = trace;
  const fields = Object.keys({ ...known, steps, outputs: _ }).filter((key) => key !== "schema");
  const rest = Object.fromEntries(ENDING.map((key) => [key, trace[key]]));
  const start = {
    kind: "start",
    strategy: trace.strategy,
    link: "/?strategy=x",
    form: {
      strategy: "x",
      prompt: "",
      messages: null,
      template: null,
      image: null,
      audio: null,
      speech: null,
      model: "",
      assistant: "",
      seed: "0",
      values: {},
    },
    header: { ...known, fields },
    ...(templates ? { templates } : {}),
  };
  const deltas = steps.map((step, i) => ({
    kind: "delta",
    steps: [step],
    shown: [shownOf.get(trace)[i]],
    pieces: {},
    texts: [],
  }));
  return [start, ...deltas, { kind: "finish", rest }].map((message, seq) => ({
    run,
    seq,
    ...message,
  }));
}
