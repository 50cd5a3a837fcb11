// Sentences about a custom method's run, its steps and its forward passes.
import {
  formatCount as number,
  pluralText,
  quoteText,
  tokenLabel,
  tokensText,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @import { ForwardRow } from "../shared/summaries.d.ts" */

/**
 * The summary of a step.
 * @param {Run} run
 * @param {Step} step
 */
export const stepSummary = (run, step) => run.shown[step.index].forward_timeline;

export const OUTSIDE_NOTE = tr(
  "We only see what the method sends to the model. Tokens it discarded before that don't appear.",
);

/** @param {any} figures */
function rollbackText({ back, rollbacks }) {
  if (!back) return tr("none was taken back");
  const where = pluralText(rollbacks, tr("in 1 [rollback]"), tr("in {n} [rollback|rollbacks]"));
  return back === 1
    ? tr("1 token was taken back {where}", { where })
    : tr("{n} tokens were taken back {where}", { n: number(back), where });
}

/**
 * The run in figures. Glossary terms are in brackets.
 * @param {any} figures of the summary
 * @param {boolean} ended
 */
export function summaryText(figures, ended) {
  const { tokens, left, aside, rows } = figures;
  const all = pluralText(tokens, tr("1 token"), tr("{n} tokens"));
  const within = pluralText(
    figures.passes,
    tr("in 1 [forward pass|forward pass]"),
    tr("in {n} [forward pass|forward passes]"),
  );
  const said = [`${all} ${within}; ${rollbackText(figures)}.`];
  if (ended && left)
    said.push(
      pluralText(
        left,
        tr("1 token that had been written is not in the text that was returned."),
        tr("{n} tokens that had been written are not in the text that was returned."),
      ),
    );
  if (aside)
    said.push(tr("{n} of the passes read another text than the run's own.", { n: number(aside) }));
  if (rows > 1)
    said.push(
      tr("Up to {n} rows were read at once; what is followed here is the first.", {
        n: number(rows),
      }),
    );
  return said.join(" ");
}

/**
 * A line on what the record could not capture, empty if nothing is missing.
 * @param {any} figures of the summary
 * @param {boolean} ended
 */
export function gapsText({ passes: seen, without_ids, blind, steps, declared, rows }, ended) {
  const unseen = [];
  if (ended && !seen) unseen.push(tr("any forward pass: the tokens came from elsewhere"));
  if (without_ids)
    unseen.push(
      pluralText(
        without_ids,
        tr("what 1 pass read, as it was given no token ids"),
        tr("what {n} passes read, as they were given no token ids"),
      ),
    );
  if (blind) unseen.push(blindText(number(blind), steps));
  if (rows > 1) unseen.push(tr("which tokens the other rows got"));
  if (ended && !declared)
    unseen.push(tr("when a token was final, as none was handed to a [streamer]"));
  return unseen.length ? tr("Not seen: {unseen}.", { unseen: unseen.join("; ") }) : "";
}

/**
 * @param {string} blind
 * @param {number} steps
 */
const blindText = (blind, steps) =>
  pluralText(
    steps,
    tr("the [candidate|candidates] at {blind} of 1 step (no model output was available there)", {
      blind,
    }),
    tr("the [candidate|candidates] at {blind} of {n} steps (no model output was available there)", {
      blind,
    }),
  );

/**
 * @param {Run} run
 * @param {number[]} ids
 */
const quoteTokens = (run, ids) =>
  quoteText(ids.length === 1 ? tokenLabel(run, ids[0]) : tokensText(run, ids).trim());

const MAX_QUOTED = 40;

/**
 * @param {Run} run
 * @param {number[]} ids
 */
const quoteStart = (run, ids) =>
  ids.length > MAX_QUOTED
    ? tr("{text} and so on", { text: quoteTokens(run, ids.slice(0, MAX_QUOTED)) })
    : quoteTokens(run, ids);

/**
 * @param {number} from
 * @param {number} to
 */
function rangeText(from, to) {
  const [first, last] = [from, to].map(number);
  if (from === to) return first;
  return to === from + 1
    ? tr("{first} and {last}", { first, last })
    : tr("{first} to {last}", { first, last });
}

/**
 * The tokens that a step's passes read. Passes over another text are counted separately.
 * @param {ForwardDetail} detail
 * @param {ForwardRow[]} rows
 */
function readText(detail, rows) {
  if (!detail.passes.length) return tr("No forward pass was seen before it.");
  const numbers = rangeText(rows[0].number ?? 0, rows[rows.length - 1].number ?? 0);
  const others = detail.passes.filter((pass) => pass.aside && pass.read).length;
  const own = detail.passes.filter((pass) => !pass.aside).map((pass) => pass.read);
  const tokens =
    own.length === 1 && own[0] === 1
      ? tr("1 token")
      : tr("{n} tokens", { n: own.map(number).join(" + ") });
  const beside = pluralText(
    others,
    tr("1 pass read another text"),
    tr("{n} passes read another text"),
  );
  if (own.length) {
    const read =
      rows.length === 1
        ? tr("Forward pass {numbers} read {tokens} of its text", { numbers, tokens })
        : tr("Forward passes {numbers} read {tokens} of its text", { numbers, tokens });
    return others ? `${read}; ${beside}.` : `${read}.`;
  }
  const which =
    rows.length === 1
      ? tr("Forward pass {numbers}", { numbers })
      : tr("Forward passes {numbers}", { numbers });
  return others ? tr("{which} {beside}.", { which, beside }) : `${which}.`;
}

/**
 * The tokens that were removed after a pass, or by a step without one.
 * @param {number} tokens how many
 * @param {number | null} pass
 * @param {string} text
 */
function removalText(tokens, pass, text) {
  const n = number(tokens);
  if (pass === null)
    return tokens === 1
      ? tr("1 token was taken back: {text}.", { text })
      : tr("{n} tokens were taken back: {text}.", { n, text });
  return tokens === 1
    ? tr("1 token was taken back after pass {pass}: {text}.", { pass: number(pass), text })
    : tr("{n} tokens were taken back after pass {pass}: {text}.", { n, pass: number(pass), text });
}

/**
 * The tokens that a step wrote, and their numbers among the new tokens.
 * @param {number} tokens how many
 * @param {string} text
 * @param {string} places
 */
function outputText(tokens, text, places) {
  if (!tokens) return tr("Nothing was written.");
  return tokens === 1
    ? tr("Then {text} was written, new token {places}.", { text, places })
    : tr("Then {text} was written, new tokens {places}.", { text, places });
}

/**
 * A step in sentences: tokens read, removed and written.
 * @param {Run} run
 * @param {Step} step
 */
export function stepText(run, step) {
  const { rows, written } = stepSummary(run, step);
  const { declared } = step.detail;
  const said = [readText(step.detail, rows)];
  for (const { number: pass, gone } of rows.filter((row) => row.gone.length))
    said.push(removalText(gone.length, pass, quoteStart(run, gone)));
  const { emit } = step;
  said.push(outputText(emit.length, quoteStart(run, emit), rangeText(step.keep + 1, written)));
  if (declared)
    said.push(
      pluralText(
        declared,
        tr("1 token was handed to the streamer meanwhile."),
        tr("{n} tokens were handed to the streamer meanwhile."),
      ),
    );
  return said.join(" ");
}

/**
 * The tokens that a pass read, and the number of tokens in the cache.
 * @param {any} pass
 */
export function passText({ rows, read, cached, aside }) {
  if (!read) return tr("read no token ids");
  const tokens = aside
    ? pluralText(read, tr("1 token of another text"), tr("{n} tokens of another text"))
    : pluralText(read, tr("1 token"), tr("{n} tokens"));
  const each = rows > 1 ? tr(" in each of {n} rows", { n: number(rows) }) : "";
  const held = cached ? tr(", {n} stored in the cache", { n: number(cached) }) : tr(", no cache");
  return tr("read {tokens}{each}{held}", { tokens, each, held });
}
