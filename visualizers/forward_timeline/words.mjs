// What is said of a run that was seen from outside, and of one of its steps.
import { count, fixed, milliseconds, piece, textOfIds } from "../shared/text.mjs";

const number = (x) => x.toLocaleString("en");

export const seconds = (s) => (s < 1 ? milliseconds(s) : `${fixed(s, 2)} s`);

/**
 * What the summary shows of a step.
 * @param {Run} run
 * @param {Step} step
 */
export const shownOf = (run, step) => run.shown[step.index].forward_timeline;

export const OUTSIDE =
  "Seen from outside, by what the model was given to read: a token that was taken back before the model had read it does not show.";

const passes = (x) => (x === 1 ? "forward pass" : "forward passes");

/** @param {any} figures */
function takenBack({ back, rollbacks }) {
  if (!back) return "none was taken back";
  const word = rollbacks === 1 ? "[rollback]" : "[rollback|rollbacks]";
  return `${count(back, "token was", "tokens were")} taken back in ${number(rollbacks)} ${word}`;
}

/**
 * The run in figures, as sentences whose terms stand in brackets.
 * @param {any} figures of the summary
 * @param {boolean} ended
 */
export function summaryOf(figures, ended) {
  const { tokens, left, aside, rows } = figures;
  const all = `${number(figures.passes)} [forward pass|${passes(figures.passes)}]`;
  const said = [`${count(tokens, "token")} in ${all}; ${takenBack(figures)}.`];
  if (ended && left)
    said.push(
      `${count(left, "token that had been written is", "tokens that had been written are")} not in the text that was returned.`,
    );
  if (aside)
    said.push(
      `${count(aside, "of the passes", "of the passes")} read another text than the run's own.`,
    );
  if (rows > 1)
    said.push(`Up to ${number(rows)} rows were read at once; what is followed here is the first.`);
  return said.join(" ");
}

/**
 * What could not be seen, in one line, empty where that is nothing.
 * @param {any} figures of the summary
 * @param {boolean} ended
 */
export function unseenOf({ passes: seen, without_ids, blind, steps, declared, rows }, ended) {
  const unseen = [];
  if (ended && !seen) unseen.push("any forward pass: the tokens came from elsewhere");
  if (without_ids)
    unseen.push(
      `what ${count(without_ids, "pass", "passes")} read, as ${without_ids === 1 ? "it was" : "they were"} given no token ids`,
    );
  if (blind)
    unseen.push(
      `the [candidate|candidates] of ${number(blind)} of ${count(steps, "step")}, as no pass told of their place`,
    );
  if (rows > 1) unseen.push("which tokens the other rows got");
  if (ended && !declared) unseen.push("when a token was final, as none was handed to a [streamer]");
  return unseen.length ? `Not seen: ${unseen.join("; ")}.` : "";
}

/** @param {Run} run */
const quoted = (run, ids) =>
  `“${ids.length === 1 ? piece(run, ids[0]) : textOfIds(run, ids).trim()}”`;

const MOST = 40;

/** @param {Run} run */
const cut = (run, ids) =>
  ids.length > MOST ? `${quoted(run, ids.slice(0, MOST))} and so on` : quoted(run, ids);

const between = (first, last) =>
  first === last
    ? number(first)
    : `${number(first)} ${last === first + 1 ? "and" : "to"} ${number(last)}`;

// What a step's passes read; those that read another text are counted by themselves.
function readWords(detail, rows) {
  if (!detail.passes.length) return "No forward pass was seen before it.";
  const numbers = between(rows[0].number, rows.at(-1).number);
  const others = detail.passes.filter((pass) => pass.aside && pass.read).length;
  const own = detail.passes.filter((pass) => !pass.aside).map((pass) => pass.read);
  const tokens = own.length === 1 && own[0] === 1 ? "token" : "tokens";
  const read = own.length ? ` read ${own.map(number).join(" + ")} ${tokens} of its text` : "";
  const beside = others
    ? `${read ? "; " : " "}${count(others, "pass", "passes")} read another text`
    : "";
  return `Forward ${rows.length === 1 ? "pass" : "passes"} ${numbers}${read}${beside}.`;
}

/**
 * A step in words: what was read, what was taken back, what was written.
 * @param {Run} run
 * @param {Step} step
 */
export function stepWords(run, step) {
  const { rows, written } = shownOf(run, step);
  const { declared } = step.detail;
  const said = [readWords(step.detail, rows)];
  for (const { number: pass, gone } of rows.filter((row) => row.gone.length))
    said.push(
      `${count(gone.length, "token was", "tokens were")} taken back${pass === null ? "" : ` after pass ${number(pass)}`}: ${cut(run, gone)}.`,
    );
  const { emit } = step;
  said.push(
    emit.length
      ? `Then ${cut(run, emit)} was written, new ${emit.length === 1 ? "token" : "tokens"} ${between(step.keep + 1, written)}.`
      : "Nothing was written.",
  );
  if (declared)
    said.push(`${count(declared, "token was", "tokens were")} handed to the streamer meanwhile.`);
  return said.join(" ");
}

/**
 * What a pass read, and what the cache held then.
 * @param {any} pass
 */
export function passWords({ rows, read, cached, aside }) {
  if (!read) return "read no token ids";
  const each = rows > 1 ? ` in each of ${number(rows)} rows` : "";
  const held = cached ? `, ${number(cached)} held in the cache` : ", no cache";
  return `read ${count(read, "token")}${aside ? " of another text" : ""}${each}${held}`;
}
