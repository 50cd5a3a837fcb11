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

const createLegend = () =>
  el(
    "div",
    { class: "dp-legend" },
    el("span", {}, renderTerms(tr("[KL divergence] of the other model’s distribution:"))),
    KL_LEVELS.map(([, shade, words]) => el("span", { class: `dp-tok${shade}` }, words)),
  );

/**
 * @param {any} found
 * @param {number} id
 */
const placeText = (found, id) => makeVisible(found.pieces[id] ?? `#${id}`);

/**
 * A sentence on one token under both models.
 * @param {any} found
 * @param {number} at
 */
function describePlace(found, at) {
  const { own, other, kl } = found;
  const first =
    own.tops[at] === other.tops[at]
      ? tr("both find the same token most probable")
      : tr("most likely: “{own}”, other model “{other}”", {
          own: placeText(found, own.tops[at]),
          other: placeText(found, other.tops[at]),
        });
  return [
    quoteText(placeText(found, found.token_ids[at])),
    tr("KL {kl} nats", { kl: formatPrecise(kl[at]) }),
    tr("probability {own}, other model {other}", {
      own: formatPercent(own.probabilities[at]),
      other: formatPercent(other.probabilities[at]),
    }),
    tr("rank {own}, other model {other}", { own: own.ranks[at], other: other.ranks[at] }),
    first,
  ].join("; ");
}

/**
 * @param {any} found the server's answer
 * @param {(at: number) => void} choose called with the position of a pressed token
 */
function createStrip(found, choose) {
  const say = el("p", { class: "dp-note bs-status", role: "status" });
  /** @type {number[]} */
  const ids = found.token_ids;
  const nodes = ids.map((id, at) => {
    const parted = found.own.tops[at] !== found.other.tops[at];
    const words = describePlace(found, at);
    const pick = () => {
      say.textContent = `${words}.`;
      for (const node of nodes) node.classList.toggle("sel", node === nodes[at]);
      choose(at);
    };
    return el(
      "button",
      {
        type: "button",
        class: `dp-tok bs-tok${klClass(found.kl[at])}`,
        "aria-label": words,
        title: words,
        onclick: pick,
      },
      placeText(found, id),
      // A sign besides the colour, for visitors who cannot see it.
      parted ? el("sup", { "aria-hidden": "true" }, "≠") : null,
    );
  });
  const strip = el("div", { class: "bs-strip", role: "group", "aria-label": tr("Tokens") }, nodes);
  return [strip, createLegend(), say];
}

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
    ...createStrip(found, choose),
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
