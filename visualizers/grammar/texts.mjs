// The texts that a grammar allows, with two probabilities each: what choosing among whole texts gives, and
// what removing forbidden tokens one by one gives.
import { createButton, createScroller, createTableHead, el } from "../shared/dom.mjs";
import { renderTerms } from "../shared/terms.mjs";
import {
  formatCount,
  formatFixed,
  formatPercent,
  formatPrecise,
  makeVisible,
  quoteText,
  toCssLength,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @typedef {{ text: string, own: number, masked: number }} AllowedText */

/**
 * What the server found: all texts of a small grammar if `exact`, else an estimate from draws. `count` is
 * the number of all texts found, of which `texts` has the most probable ones.
 * @typedef {object} GrammarTexts
 * @property {boolean} exact
 * @property {AllowedText[]} texts
 * @property {number} count
 * @property {number} valid probability that the model writes an allowed text without a grammar
 * @property {number} [divergence] in nats, of an exact list
 * @property {string} [greedy] of an exact list: the text of greedy search
 * @property {number} [low] of an estimate: its 95 % interval
 * @property {number} [high]
 * @property {number} [effective] equal draws that would be as exact
 * @property {number} [draws]
 */

const SHOWN = 10;

/** @param {string} text */
const quote = (text) => quoteText(makeVisible(text.trim()));

/**
 * The text that removing tokens writes most often.
 * @param {AllowedText[]} texts
 */
const findMasked = (texts) => [...texts].sort((a, b) => b.masked - a.masked)[0];

/**
 * The finding: which text either way prefers.
 * @param {GrammarTexts} found
 */
export function findingText({ texts }) {
  // The list begins with the text that is the most probable among whole texts.
  const [own, masked] = [texts[0], findMasked(texts)];
  if (own === masked)
    return tr(
      "Both ways prefer {text}: {own} among whole texts, {masked} when tokens are removed.",
      {
        text: quote(own.text),
        own: formatPercent(own.own),
        masked: formatPercent(own.masked),
      },
    );
  return [
    tr("Among whole texts the model prefers {text} ({share}).", {
      text: quote(own.text),
      share: formatPercent(own.own),
    }),
    tr("Removing tokens prefers {text} ({share}).", {
      text: quote(masked.text),
      share: formatPercent(masked.masked),
    }),
  ].join(" ");
}

/**
 * How probable an allowed text is without a grammar, and how well that is known.
 * @param {GrammarTexts} found
 */
export function validText({ exact, count, valid, low = 0, high = 0, draws = 0, effective = 0 }) {
  if (exact)
    return tr("Without a grammar, the model writes one of these {n} texts with probability {p}.", {
      n: formatCount(count),
      p: formatPrecise(valid),
    });
  const probability = tr(
    "Without a grammar, the model writes an allowed text with probability {p}. The 95 % interval is {low} to {high}.",
    { p: formatPrecise(valid), low: formatPrecise(low), high: formatPrecise(high) },
  );
  const draw = tr(
    "This is an estimate from {draws} draws, which count like {effective} equal ones. A text that no draw found is missing.",
    { draws: formatCount(draws), effective: formatFixed(effective, 0) },
  );
  return `${probability} ${draw}`;
}

/**
 * @param {number} value
 * @param {number} longest value that fills a bar
 * @param {string} kind
 */
const createBar = (value, longest, kind) =>
  el(
    "td",
    { class: "gt-cell" },
    el(
      "span",
      { class: "gt-track", "aria-hidden": "true" },
      el("i", { class: kind, style: { width: toCssLength(barShare(value, longest)) } }),
    ),
    el("span", { class: "gt-number" }, formatPercent(value)),
  );

/**
 * The part of a bar that a probability fills.
 * @drawing
 * @param {number} value
 * @param {number} longest
 */
const barShare = (value, longest) => value / longest;

/**
 * @param {AllowedText} row
 * @param {number} longest
 * @param {string[]} marks
 */
const createRow = ({ text, own, masked }, longest, marks) =>
  el(
    "tr",
    { class: marks.length ? "on" : null },
    el(
      "th",
      { scope: "row" },
      el("span", { class: "gt-text" }, makeVisible(text)),
      marks.map((mark) => el("span", { class: "gt-mark" }, mark)),
    ),
    createBar(own, longest, "gt-own"),
    createBar(masked, longest, "gt-masked"),
  );

/**
 * @param {Run} run
 * @param {GrammarTexts} found
 */
export function createTexts(run, found) {
  const { texts, count, greedy, divergence } = found;
  if (!texts.length) return [];
  const longest = Math.max(texts[0].own, findMasked(texts).masked);
  const rows = texts.map((one) => {
    const marks = [
      run.texts.includes(one.text) ? tr("this run") : "",
      one.text === greedy ? tr("greedy") : "",
    ];
    return createRow(one, longest, marks.filter(Boolean));
  });
  const body = el("tbody", {}, rows.slice(0, SHOWN));
  const columns = [
    tr("Allowed text"),
    el("span", {}, el("i", { class: "gt-key gt-own" }), tr("Choosing whole texts")),
    el("span", {}, el("i", { class: "gt-key gt-masked" }), tr("Removing tokens")),
  ];
  const table = el("table", { class: "dp-table gt-table" }, createTableHead(columns), body);
  const rest = rows.slice(SHOWN);
  const all = createButton(
    tr("Show {n} more texts", { n: formatCount(rest.length) }),
    () => {
      all.remove();
      body.append(...rest);
      table.parentElement?.focus();
    },
    { class: "dp-btn gt-all" },
  );
  const missing = count - texts.length;
  return [
    el("p", { class: "gt-finding" }, findingText(found)),
    createScroller(tr("Allowed texts"), table),
    rest.length ? all : null,
    missing
      ? el(
          "p",
          { class: "dp-note" },
          tr("{n} rarer texts are not shown.", { n: formatCount(missing) }),
        )
      : null,
    el("p", { class: "gt-valid" }, validText(found)),
    el(
      "p",
      { class: "dp-note" },
      tr("Both columns are at temperature 1, without your other settings."),
      " ",
      divergence === undefined
        ? null
        : renderTerms(
            tr("They differ by {nats} nats ([KL divergence|KL divergence]).", {
              nats: formatFixed(divergence),
            }),
          ),
    ),
  ].filter((part) => part !== null);
}
