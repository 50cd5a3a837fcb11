// View of two models on one text: every token shaded by the KL divergence, and figures of both.
import { createTable, el } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { renderTerms } from "../shared/terms.mjs";
import {
  formatCount,
  formatFixed,
  formatPercent,
  formatPrecise,
  makeVisible,
  quoteText,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

// KL divergence in nats -> CSS class and label.
/** @type {[number, string, string][]} */
const KL_LEVELS = [
  [0.01, "", tr("under 0.01 nats")],
  [0.1, " s1", "0.01–0.1"],
  [1, " s2", "0.1–1"],
  [Number.POSITIVE_INFINITY, " s3", tr("over 1 nat")],
];
const BYTES_PER_MB = 1e6;

/** @param {number} kl */
const klClass = (kl) => KL_LEVELS.find(([end]) => kl < end)?.[1] ?? "";

/** @param {string} title */
const createLegend = (title) =>
  el(
    "div",
    { class: "dp-legend" },
    el("span", {}, renderTerms(title)),
    KL_LEVELS.map(([, shade, words]) => el("span", { class: `dp-tok${shade}` }, words)),
  );

/**
 * @param {any} found
 * @param {number} id
 */
export const placeText = (found, id) => makeVisible(found.pieces[id] ?? `#${id}`);

/**
 * What both models find most probable.
 * @param {any} found
 * @param {number} own
 * @param {number} other
 */
export const describeTops = (found, own, other) =>
  own === other
    ? tr("both find the same token most probable")
    : tr("most likely: “{own}”, other model “{other}”", {
        own: placeText(found, own),
        other: placeText(found, other),
      });

/**
 * A sentence on one token under both models.
 * @param {any} found
 * @param {number} at
 */
function describePlace(found, at) {
  const { own, other, kl } = found;
  return [
    quoteText(placeText(found, found.token_ids[at])),
    tr("KL {kl} nats", { kl: formatPrecise(kl[at]) }),
    tr("probability {own}, other model {other}", {
      own: formatPercent(own.probabilities[at]),
      other: formatPercent(other.probabilities[at]),
    }),
    tr("rank {own}, other model {other}", { own: own.ranks[at], other: other.ranks[at] }),
    describeTops(found, own.tops[at], other.tops[at]),
  ].join("; ");
}

/**
 * A place of the text: its token, the divergence there in nats, whether the two models' most probable
 * tokens differ, and all of it in words.
 * @typedef {{ text: string, kl: number, differs: boolean, words: string }} Place
 */

/**
 * The text as tokens that are shaded by their divergence.
 * @param {Place[]} places
 * @param {string} title of the legend
 * @param {(at: number) => void} choose called with the position of a pressed token
 */
export function createStrip(places, title, choose) {
  const say = el("p", { class: "dp-note bs-status", role: "status" });
  const nodes = places.map(({ text, kl, differs, words }, at) => {
    const pick = () => {
      say.textContent = `${words}.`;
      for (const node of nodes) node.classList.toggle("sel", node === nodes[at]);
      choose(at);
    };
    return el(
      "button",
      {
        type: "button",
        class: `dp-tok bs-tok${klClass(kl)}`,
        "aria-label": words,
        title: words,
        onclick: pick,
      },
      text,
      // A sign besides the colour, for visitors who cannot see it.
      differs ? el("sup", { "aria-hidden": "true" }, "≠") : null,
    );
  });
  const strip = el("div", { class: "bs-strip", role: "group", "aria-label": tr("Tokens") }, nodes);
  return [strip, createLegend(title), say];
}

/** @param {any} found */
const listPlaces = (found) =>
  found.token_ids.map((/** @type {number} */ id, /** @type {number} */ at) => ({
    text: placeText(found, id),
    kl: found.kl[at],
    differs: found.own.tops[at] !== found.other.tops[at],
    words: describePlace(found, at),
  }));

/**
 * Format bytes as megabytes.
 * @drawing
 * @param {number} bytes
 */
const formatMegabytes = (bytes) => `${formatFixed(bytes / BYTES_PER_MB, 1)} MB`;

/** @param {any} side */
const modelCells = (side) => [
  said(side.held),
  formatMegabytes(side.bytes),
  side.perplexity === null ? "–" : formatFixed(side.perplexity),
  side.tokens_per_s === null ? "–" : formatFixed(side.tokens_per_s, 1),
];

/** @param {number | null} n */
function divergenceText(n) {
  if (n === null) return tr("Greedy, both write the same text.");
  return n === 1
    ? tr("Greedy, their texts diverge after 1 token.")
    : tr("Greedy, their texts diverge after {n} tokens.", { n: formatCount(n) });
}

/**
 * @param {any} found
 */
function summaryText({ mean_kl, largest_kl, agreement, parted, token_ids }) {
  const n = token_ids.length;
  const values = {
    n: formatCount(n),
    mean: formatPrecise(mean_kl),
    largest: formatPrecise(largest_kl),
  };
  return [
    n === 1
      ? tr("Over 1 token the mean KL divergence is {mean} nats, the largest {largest}.", values)
      : tr("Over {n} tokens the mean KL divergence is {mean} nats, the largest {largest}.", values),
    tr("Both find the same token most probable at {share} of the places.", {
      share: formatPercent(agreement),
    }),
    divergenceText(parted),
  ].join(" ");
}

/**
 * @param {any} found
 * @param {(at: number) => void} choose
 * @returns {HTMLElement[]}
 */
export function createModelComparison(found, choose) {
  const { own, other } = found;
  const names = [tr("stored as"), tr("parameters"), tr("perplexity"), tr("tokens per second")];
  const [a, b] = [own, other].map(modelCells);
  const rows = names.map((name, i) => [name, a[i], b[i]]);
  return [
    el("p", { class: "bs-summary" }, summaryText(found)),
    ...createStrip(
      listPlaces(found),
      tr("[KL divergence] of the other model’s distribution:"),
      choose,
    ),
    createTable(
      [
        "",
        tr("of the run: {model}", { model: own.model }),
        tr("compared with: {model}", { model: other.model }),
      ],
      rows,
    ),
  ];
}
