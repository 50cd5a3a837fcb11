// Two models on one text: every token shaded by how far the other is off there, and what each came to.
import { el, table } from "../shared/dom.mjs";
import { told } from "../shared/terms.mjs";
import { count, fixed, percent, precise, visible } from "../shared/text.mjs";

// Nats: what can hardly be seen, what is seen, what decides otherwise.
const LEVELS = [
  [0.01, "", "under 0.01 nats"],
  [0.1, " s1", "0.01–0.1"],
  [1, " s2", "0.1–1"],
  [Number.POSITIVE_INFINITY, " s3", "over 1 nat"],
];
const MEGA = 1e6;

const levelOf = (kl) => LEVELS.find(([end]) => kl < end)?.[1] ?? "";

const legend = () =>
  el(
    "div",
    { class: "dp-legend" },
    el("span", {}, told("[KL divergence] of the other model’s distribution:")),
    LEVELS.map(([, shade, words]) => el("span", { class: `dp-tok${shade}` }, words)),
  );

const word = (found, id) => visible(found.pieces[id] ?? `#${id}`);

/**
 * What both make of one token, in words.
 * @param {any} found
 * @param {number} at
 */
function saidOf(found, at) {
  const { own, other, kl } = found;
  const first =
    own.tops[at] === other.tops[at]
      ? "both find the same token most probable"
      : `most probable: “${word(found, own.tops[at])}”, beside it “${word(found, other.tops[at])}”`;
  return [
    `“${word(found, found.token_ids[at])}”`,
    `KL ${precise(kl[at])} nats`,
    `probability ${percent(own.probabilities[at])}, beside it ${percent(other.probabilities[at])}`,
    `rank ${own.ranks[at]}, beside it ${other.ranks[at]}`,
    first,
  ].join("; ");
}

/**
 * @param {any} found what the server answered
 * @param {(at: number) => void} choose a place of the text was pressed
 */
function stripOf(found, choose) {
  const say = el("p", { class: "dp-note bs-say", role: "status" });
  const nodes = found.token_ids.map((id, at) => {
    const parted = found.own.tops[at] !== found.other.tops[at];
    const said = saidOf(found, at);
    const pick = () => {
      say.textContent = `${said}.`;
      for (const node of nodes) node.classList.toggle("sel", node === nodes[at]);
      choose(at);
    };
    return el(
      "button",
      {
        type: "button",
        class: `dp-tok bs-tok${levelOf(found.kl[at])}`,
        "aria-label": said,
        title: said,
        onclick: pick,
      },
      word(found, id),
      // Colour is not the only sign of it.
      parted ? el("sup", { "aria-hidden": "true" }, "≠") : null,
    );
  });
  const strip = el("div", { class: "bs-strip", role: "group", "aria-label": "Tokens" }, nodes);
  return [strip, legend(), say];
}

/**
 * A number of bytes in megabytes.
 * @drawing
 */
const megabytes = (bytes) => `${(bytes / MEGA).toFixed(1)} MB`;

const sideOf = (side) => [
  side.held,
  megabytes(side.bytes),
  side.perplexity === null ? "–" : fixed(side.perplexity, 3),
  side.tokens_per_s === null ? "–" : fixed(side.tokens_per_s, 1),
];

/**
 * @param {any} found
 */
function sentenceOf({ mean_kl, largest_kl, agreement, parted, token_ids }) {
  const greedy =
    parted === null
      ? "Greedy, both write the same text."
      : `Greedy, their texts part after ${count(parted, "token")}.`;
  return `Over ${count(token_ids.length, "token")} the mean KL divergence is ${precise(mean_kl)} nats, the largest ${precise(largest_kl)}. Both find the same token most probable at ${percent(agreement)} of the places. ${greedy}`;
}

/**
 * @param {any} found
 * @param {(at: number) => void} choose
 * @returns {HTMLElement[]}
 */
export function besideOf(found, choose) {
  const { own, other } = found;
  const names = ["held as", "parameters", "perplexity", "tokens per second"];
  const [a, b] = [own, other].map(sideOf);
  const rows = names.map((name, i) => [name, a[i], b[i]]);
  return [
    el("p", { class: "bs-lead" }, sentenceOf(found)),
    ...stripOf(found, choose),
    table(["", `of the run: ${own.model}`, `beside it: ${other.model}`], rows),
  ];
}
