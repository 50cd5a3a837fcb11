// Decides steps as the page does: reads answers of the server with settings from the standard input, and
// writes the decisions.
import { text } from "node:stream/consumers";
import { decideStep } from "../../playground/client/inspect/decide_step.mjs";
import { readStepScores } from "../../playground/client/inspect/step_scores.mjs";

const asked = JSON.parse(await text(process.stdin));
const decisions = asked.map(({ answer, recorded, settings }) => {
  const scores = readStepScores(answer);
  return settings.map((values) => decideStep(scores, values, recorded));
});
process.stdout.write(JSON.stringify(decisions));
