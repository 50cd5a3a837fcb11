// Downloads the trace of a run.
import { saveAs } from "../shared/dom.mjs";
import { toTraceJson } from "../shared/record.mjs";

/** @param {Run} run */
export const saveTrace = (run) =>
  saveAs(`${run.strategy}-seed${run.seed}.json`, "application/json", toTraceJson(run));
