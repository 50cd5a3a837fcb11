// A strip of probabilities: the width of a token is its probability, and the drawn one is framed.
import { el } from "../shared/dom.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatPercent, toCssLength, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

// Smaller parts have no room for a name.
const MIN_NAMED_SHARE = 0.13;
const MIN_REST_SHARE = 0.001;

/** @param {[number | null, number]} others */
function createRest([count, share]) {
  if (share < MIN_REST_SHARE && !count) return null;
  const name = count === null ? tr("others") : tr("{n} others", { n: count.toLocaleString("en") });
  return { name, share, kind: "rest" };
}

/** @param {{ name: string, share: number, kind: string }} part */
function createPart({ name, share, kind }) {
  const said = `${name} ${formatPercent(share)}`;
  return el(
    "span",
    { class: `st-part ${kind}`, title: said, style: { flexBasis: toCssLength(share) } },
    share >= MIN_NAMED_SHARE ? [el("span", {}, name), el("small", {}, formatPercent(share))] : null,
  );
}

/**
 * @param {Run} run
 * @param {{ strip: [number, number][], others: [number | null, number] }} shown
 * @param {number} chosen
 * @param {string} caption
 * @param {string} word outcome of the chosen token
 */
export function createStrip(run, { strip, others }, chosen, caption, word) {
  const parts = strip.map(([id, share], i) => ({
    name: tokenLabel(run, id),
    share,
    kind: id === chosen ? "on" : i % 2 ? "odd" : "",
  }));
  const rest = createRest(others);
  const all = rest ? [...parts, rest] : parts;
  const own = parts.find(({ kind }) => kind === "on");
  const said = all.map(({ name, share }) => `${name} ${formatPercent(share)}`).join(", ");
  return el(
    "figure",
    { class: "st-figure" },
    el(
      "figcaption",
      {},
      renderTerms(caption),
      own ? [": ", el("b", {}, `◆ ${own.name} ${formatPercent(own.share)}`), ` ${word}`] : null,
    ),
    el(
      "div",
      { class: "st-strip", role: "img", "aria-label": `${caption}: ${said}` },
      all.map(createPart),
    ),
  );
}
