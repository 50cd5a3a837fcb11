// A strip of probabilities: the width of a token is its probability, and the drawn one is framed.
import { el } from "../shared/dom.mjs";
import { told } from "../shared/terms.mjs";
import { lengthOf, percent, piece } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

// Smaller parts have no room for a name.
const ROOM = 0.13;
const SOME = 0.001;

function restOf([count, share]) {
  if (share < SOME && !count) return null;
  const name = count === null ? tr("others") : tr("{n} others", { n: count.toLocaleString("en") });
  return { name, share, kind: "rest" };
}

function part({ name, share, kind }) {
  const said = `${name} ${percent(share)}`;
  return el(
    "span",
    { class: `st-part ${kind}`, title: said, style: { flexBasis: lengthOf(share) } },
    share >= ROOM ? [el("span", {}, name), el("small", {}, percent(share))] : null,
  );
}

/**
 * @param {Run} run
 * @param {{ strip: [number, number][], others: [number | null, number] }} shown
 * @param {number} chosen
 * @param {string} caption
 * @param {string} word outcome of the chosen token
 */
export function stripOf(run, { strip, others }, chosen, caption, word) {
  const parts = strip.map(([id, share], i) => ({
    name: piece(run, id),
    share,
    kind: id === chosen ? "on" : i % 2 ? "odd" : "",
  }));
  const rest = restOf(others);
  const all = rest ? [...parts, rest] : parts;
  const own = parts.find(({ kind }) => kind === "on");
  const said = all.map(({ name, share }) => `${name} ${percent(share)}`).join(", ");
  return el(
    "figure",
    { class: "st-figure" },
    el(
      "figcaption",
      {},
      told(caption),
      own ? [": ", el("b", {}, `◆ ${own.name} ${percent(own.share)}`), ` ${word}`] : null,
    ),
    el(
      "div",
      { class: "st-strip", role: "img", "aria-label": `${caption}: ${said}` },
      all.map(part),
    ),
  );
}
