// Recorded runs, and the messages that the server would have sent.
import { readFileSync } from "node:fs";
import { computeNumbers } from "./numbers.mjs";

export { names } from "./numbers.mjs";

// `npm test` has them computed once for all files; a file that runs alone computes its own.
const { NUMBERS_FILE } = process.env;
export const numbers = JSON.parse(
  NUMBERS_FILE ? readFileSync(NUMBERS_FILE, "utf8") : computeNumbers(),
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
