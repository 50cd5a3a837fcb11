// Draws influence values: over the text, a picture or a sound, with a list of the largest.
import { el, svg } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { renderTerms } from "../../../visualizers/shared/terms.mjs";
import {
  formatPercent,
  formatPrecise,
  formatSeconds,
  makeVisible,
  quoteText,
  toCssLength,
} from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/**
 * One part of an answer: a text, a picture or a sound, with a value for each place.
 * @typedef {object} Part
 * @property {string} kind cross, self, encoder or decoder
 * @property {string[]} pieces texts of the places; empty for a picture or a sound
 * @property {(number | null)[]} values
 * @property {number[]} strengths from 0 to 1, relative to the other places
 * @property {number[]} lengths of the bars of the largest
 * @property {number[]} top places with the largest values
 * @property {[number, number] | null} grid rows and columns of a picture
 * @property {number} leading places before those of the grid
 * @property {[number, number, number] | null} picture first place, rows and columns in a text
 * @property {number[]} starts seconds at which the places of a sound begin
 * @property {number} layers
 * @property {number} heads
 */

/**
 * The server's answer.
 * @typedef {object} Influence
 * @property {string} method
 * @property {string} word
 * @property {number} probability
 * @property {Part[]} parts
 * @property {string} [note]
 * @property {string} caveat
 */

/** @typedef {(sentence: string) => void} Say */

/** @type {Record<string, string>} */
const TITLES = {
  cross: tr("[cross-attention|Cross-attention]: what the encoder read"),
  self: tr("[self-attention|Self-attention]: the text so far"),
  encoder: tr("What the encoder read"),
  decoder: tr("The text so far"),
};
/** @type {Record<string, (values: { token: string, share: string }) => string>} */
const LEADS = {
  attention: (values) =>
    tr(
      "Shares of [attention] from the place at which “{token}” was decided, which had {share}.",
      values,
    ),
  gradient: (values) =>
    tr(
      "[gradient × input|Gradient × input] in nats: what speaks for “{token}”, which had {share}, has a plus, what speaks against it a minus.",
      values,
    ),
  "leave-one-out": (values) =>
    tr(
      "[leave one out|Leaving out], in nats: by how much the log-probability of “{token}”, which had {share}, falls without each place; with a minus it rises.",
      values,
    ),
};
const STRONG = 0.66;
const MIDDLE = 0.33;
const WEAK = 0.08;
/** @type {Record<string, number>} */
const ARROW_MOVES = { ArrowLeft: -1, ArrowRight: 1 };

/**
 * Return the class of a place's underline, by its strength relative to the other places.
 * @param {number} strength
 */
const underlineClass = (strength) =>
  strength >= STRONG ? " s3" : strength >= MIDDLE ? " s2" : strength >= WEAK ? " s1" : "";

/** @param {string} text */
const visiblePiece = (text) => makeVisible(text).replace(/^ +| +$/g, (s) => "·".repeat(s.length));

/**
 * @param {Influence} answer
 * @param {number | null} value
 */
function formatInfluence(answer, value) {
  if (value === null) return "–";
  if (answer.method === "attention") return formatPercent(value);
  return value > 0 ? `+${formatPrecise(value)}` : formatPrecise(value);
}

/**
 * Return the row and column of a picture's part, both from 1.
 * @param {number} columns
 * @param {number} place from 0
 * @drawing
 */
function gridCell(columns, place) {
  return { row: Math.floor(place / columns) + 1, column: (place % columns) + 1 };
}

/**
 * @param {Part} part
 * @param {number} at
 */
function placeName(part, at) {
  if (part.pieces.length) return quoteText(visiblePiece(part.pieces[at]));
  if (part.grid && at < part.leading) return tr("the whole picture");
  if (part.grid) return tr("row {row}, column {column}", gridCell(part.grid[1], at - part.leading));
  return part.starts.length ? formatSeconds(part.starts[at]) : tr("part {n}", { n: at + 1 });
}

/**
 * Let the arrow keys move the focus between places; only one place is a tab stop.
 * @param {HTMLElement} box
 * @param {HTMLElement[]} nodes
 * @param {number} columns places in a row, 0 for running text
 */
function addArrowKeys(box, nodes, columns = 0) {
  /** @type {Record<string, number>} */
  const steps = { ...ARROW_MOVES, ...(columns ? { ArrowUp: -columns, ArrowDown: columns } : {}) };
  /** @type {Record<string, number>} */
  const ends = { Home: 0, End: nodes.length - 1 };
  /** @param {HTMLElement} node */
  const reach = (node) => {
    for (const one of nodes) one.tabIndex = one === node ? 0 : -1;
  };
  box.addEventListener("keydown", (event) => {
    const at = nodes.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = ends[event.key] ?? at + steps[event.key];
    if (at < 0 || Number.isNaN(to)) return;
    event.preventDefault();
    if (!nodes[to]) return;
    reach(nodes[to]);
    nodes[to].focus();
  });
  if (nodes.length) reach(nodes[0]);
}

/**
 * Make the button of a place; hover and focus show its value.
 * @param {Influence} answer
 * @param {Part} part
 * @param {number} at
 * @param {{ cls: string, text: string, say: Say }} shown
 */
function placeButton(answer, part, at, { cls, text, say }) {
  const words = tr("{place}: {value}", {
    place: placeName(part, at),
    value: formatInfluence(answer, part.values[at]),
  });
  const tell = () => say(words);
  const node = el(
    "button",
    {
      type: "button",
      class: `${cls}${negativeClass(part.values[at])}`,
      "aria-label": words,
      title: words,
      "data-at": at,
      onfocus: tell,
      onpointermove: tell,
      onclick: tell,
    },
    text,
  );
  node.style.setProperty("--lk", String(part.strengths[at]));
  return node;
}

/** @param {number | null} value */
const negativeClass = (value) => ((value ?? 0) < 0 ? " neg" : "");

/**
 * Whether a place in the text is a token of the picture.
 * @param {Part} part
 * @param {number} at
 */
const isPicturePlace = ({ picture }, at) =>
  picture !== null && at >= picture[0] && at < picture[0] + picture[1] * picture[2];

/**
 * @param {Influence} answer
 * @param {Part} part
 * @param {string} own the token itself, empty for none
 * @param {Say} say
 */
function tokenStrip(answer, part, own, say) {
  /** @type {HTMLElement[]} */
  const nodes = [];
  const box = el("div", {
    class: "lk-strip",
    role: "group",
    "aria-label": tr("Places and their numbers; arrow keys move"),
  });
  for (const [at, text] of part.pieces.entries()) {
    if (isPicturePlace(part, at)) {
      if (at === part.picture?.[0]) box.append(el("span", { class: "lk-gap" }, "▦"));
      continue;
    }
    const level = underlineClass(part.strengths[at]);
    const node = placeButton(answer, part, at, {
      cls: `dp-tok lk-tok${level}`,
      text: makeVisible(text),
      say,
    });
    nodes.push(node);
    box.append(node);
  }
  if (own) box.append(el("b", { class: "inf-token" }, `→ ${own}`));
  addArrowKeys(box, nodes);
  return box;
}

/**
 * Return the picture's tokens in a text as a separate part with a grid.
 * @param {Part} part
 * @param {[number, number, number]} picture
 * @returns {Part & { grid: [number, number] }}
 */
function extractPicture(part, [first, rows, columns]) {
  const places = Array.from({ length: rows * columns }, (_, i) => first + i);
  return {
    ...part,
    pieces: [],
    grid: [rows, columns],
    leading: 0,
    values: places.map((at) => part.values[at]),
    strengths: places.map((at) => part.strengths[at]),
    top: part.top.filter((at) => isPicturePlace(part, at)).map((at) => places.indexOf(at)),
  };
}

/**
 * Return the run's preview of its picture as base64, empty for none.
 * @param {Run} run
 */
const findPreview = (run) => run.media?.find(({ kind }) => kind === "image")?.preview ?? "";

/**
 * @param {Run} run
 * @param {Influence} answer
 * @param {Part & { grid: [number, number] }} part
 * @param {Say} say
 */
function pictureGrid(run, answer, part, say) {
  const [rows, columns] = part.grid;
  const nodes = part.values.slice(part.leading).map((_, i) => {
    const at = i + part.leading;
    const rank = part.top.indexOf(at);
    return placeButton(answer, part, at, {
      cls: "lk-cell",
      text: rank < 0 ? "" : String(rank + 1),
      say,
    });
  });
  const label = tr("Parts of the picture and their numbers; arrow keys move");
  const cells = el("div", { class: "lk-cells", role: "group", "aria-label": label }, nodes);
  cells.style.gridTemplateColumns = `repeat(${columns}, 1fr)`;
  addArrowKeys(cells, nodes, columns);
  const preview = findPreview(run);
  const image = preview
    ? el("img", { src: `data:image/jpeg;base64,${preview}`, alt: tr("The picture that was read") })
    : null;
  const box = el("div", { class: "lk-picture" }, image, cells);
  box.style.aspectRatio = preview ? "" : `${columns} / ${rows}`;
  return box;
}

/**
 * Draw one line for each part of a sound; its length is the part's strength.
 * @param {Part} part
 * @drawing
 */
function soundCurve(part) {
  const lines = part.strengths.map((strength, i) => `M${i + 0.5} 1V${1 - strength}`).join("");
  return svg(
    "svg",
    {
      class: "lk-sound",
      viewBox: `0 0 ${part.strengths.length} 1`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": tr("The numbers over the sound; the list below has the largest"),
    },
    svg("path", { d: lines }),
  );
}

/**
 * @param {Influence} answer
 * @param {Part} part
 */
function topList(answer, part) {
  const rows = part.top.flatMap((at, i) => {
    const place = part.pieces.length ? at + 1 : `${i + 1}.`;
    const sign = negativeClass(part.values[at]);
    return [
      el("span", { class: "t" }, `${place} ${placeName(part, at)}`),
      el(
        "span",
        { class: `b${sign}` },
        el("i", { style: { width: toCssLength(part.lengths[i]) } }),
      ),
      el("span", { class: "n" }, formatInfluence(answer, part.values[at])),
    ];
  });
  const label = tr("The largest, by size");
  return el(
    "div",
    { class: "lk-top" },
    el("h5", {}, label),
    el("div", { class: "dp-bars", role: "group", "aria-label": label }, rows),
  );
}

/**
 * @param {Run} run
 * @param {Influence} answer
 * @param {Part} part
 * @param {string} own
 */
function renderPart(run, answer, part, own) {
  const line = el("p", { class: "dp-note inf-place", role: "status" });
  /** @type {Say} */
  const say = (sentence) => {
    line.textContent = sentence;
  };
  /** @type {Node[]} */
  const nodes = [];
  const { grid, picture } = part;
  if (part.pieces.length) {
    if (picture) nodes.push(pictureGrid(run, answer, extractPicture(part, picture), say));
    nodes.push(tokenStrip(answer, part, ["self", "decoder"].includes(part.kind) ? own : "", say));
  } else if (grid) nodes.push(pictureGrid(run, answer, { ...part, grid }, say));
  else nodes.push(soundCurve(part));
  const title = el("h4", {}, renderTerms(TITLES[part.kind]));
  return el("section", { class: "lk-part" }, title, nodes, line, topList(answer, part));
}

/**
 * Draw the server's answer: a lead sentence, and the nodes of its parts, note and caveat.
 * @param {Run} run
 * @param {Influence} answer
 * @returns {{ lead: (string | HTMLElement)[], nodes: HTMLElement[] }}
 */
export function renderInfluence(run, answer) {
  const own = visiblePiece(answer.word);
  return {
    lead: renderTerms(
      LEADS[answer.method]({ token: own, share: formatPercent(answer.probability) }),
    ),
    nodes: [
      ...answer.parts.map((part) => renderPart(run, answer, part, own)),
      ...(answer.note ? [el("p", { class: "dp-note" }, said(answer.note))] : []),
      el("p", { class: "dp-note lk-caveat" }, said(answer.caveat)),
    ],
  };
}
