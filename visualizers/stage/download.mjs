// The trace of a run as a file.
import { saveAs } from "../shared/dom.mjs";
import { trace } from "../shared/record.mjs";

/** @param {Run} run */
export const saveTrace = (run) =>
  saveAs(`${run.strategy}-seed${run.seed}.json`, "application/json", JSON.stringify(trace(run)));
