// The race of the candidates: arrival times on a line, the earliest first. Each name has its own
// row above or below the line, so that no name covers another.
import { el } from "../shared/dom.mjs";
import { toCssLength } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

const MIDDLE_SHARE = 0.5;

/**
 * @typedef {{ name: string, at: number, time: string, sign: string, word: string }} Runner
 */

/**
 * @param {Runner} runner
 * @param {string} side
 * @param {number} row
 * @param {number} place
 */
function createLabel({ name, time, sign, word, at }, side, row, place) {
  const strong = sign === "◆" ? " on" : "";
  const style = `--at:${toCssLength(at)};--row:${row};--place:${place}`;
  const label = createSpan("rc-label", style, `${side}${strong}`);
  label.append(el("b", {}, name), word ? ` ${word}` : "", el("small", {}, ` ${time}`));
  const mark = createSpan("rc-mark", style, strong);
  mark.textContent = sign;
  return [createSpan("rc-lead", style, `${side}${strong}`), mark, label];
}

/**
 * @param {string} kind
 * @param {string} style
 * @param {string} more
 */
function createSpan(kind, style, more) {
  const made = el("span", { class: `${kind} ${more}` });
  made.setAttribute("style", style);
  return made;
}

/**
 * @param {Runner[]} runners in the order of their arrival
 * @param {[number, string][]} ticks
 * @param {string} ends a phrase on what the earliest wins
 */
export function createRace(runners, ticks, ends) {
  const early = runners.filter(({ at }) => at < MIDDLE_SHARE);
  const late = runners.filter(({ at }) => at >= MIDDLE_SHARE);
  // The outermost mark gets the row farthest from the line, so that no lead crosses a name.
  const above = early.flatMap((one, i) => createLabel(one, "up", early.length - i, i));
  const below = late.flatMap((one, i) => createLabel(one, "down", i + 1, early.length + i));
  const said = runners.map(
    ({ name, time, word }) => tr("{name} at {time}", { name, time }) + (word ? `, ${word}` : ""),
  );
  const race = el(
    "div",
    {
      class: "rc-race",
      role: "img",
      "aria-label": tr("Arrivals, the earliest first: {runners}", { runners: said.join("; ") }),
    },
    el("span", { class: "rc-axis" }),
    ticks.map(([at, text]) => {
      const tick = createSpan("rc-tick", `--at:${toCssLength(at)}`, "");
      tick.textContent = text;
      return tick;
    }),
    above,
    below,
  );
  race.setAttribute("style", `--above:${early.length};--below:${late.length}`);
  return el(
    "figure",
    { class: "st-figure" },
    el("figcaption", {}, tr("Arrivals, on a logarithmic scale; {ends}", { ends })),
    race,
  );
}
