// Recorded runs, and the messages that the server would have sent of them.
import { readdir, readFile } from "node:fs/promises";
import { gunzipSync } from "node:zlib";
import { ROOT } from "./types.mjs";

const FOLDER = new URL("assets/gallery/", ROOT);

export const names = (await readdir(FOLDER))
  .filter((name) => name.endsWith(".json.gz"))
  .map((name) => name.slice(0, -".json.gz".length));

export async function open(name) {
  const packed = await readFile(new URL(`${name}.json.gz`, FOLDER));
  return JSON.parse(gunzipSync(packed).toString());
}

const ENDING = ["outputs", "metrics", "timing", "notes", "pieces"];

// What the server sends of a recorded run; here its pictures show the steps' numbers alone.
export const recorded = (trace) => ({
  trace,
  shown: trace.steps.map((_, number) => ({ test: { number } })),
});

// Start, one message a step, finish.
export function messagesOf(trace, run = "a") {
  const { steps, outputs: _, ...known } = trace;
  const fields = Object.keys(trace).filter((key) => key !== "schema");
  const rest = Object.fromEntries(ENDING.map((key) => [key, trace[key]]));
  const start = {
    kind: "start",
    strategy: trace.strategy,
    link: "/?strategy=x",
    header: { ...known, fields },
  };
  const deltas = steps.map((step, i) => ({
    kind: "delta",
    steps: [step],
    shown: [{ test: { number: i } }],
    pieces: {},
    texts: [],
  }));
  return [start, ...deltas, { kind: "finish", rest }].map((message, seq) => ({
    run,
    seq,
    ...message,
  }));
}
