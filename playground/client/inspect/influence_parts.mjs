// Draws influence values: over the text, a picture or a sound, with a list of the largest.
import { el, svg } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { renderTerms } from "../../../visualizers/shared/terms.mjs";
import {
  formatFixed,
  formatPercent,
  formatPrecise,
  makeVisible,
  toCssLength,
} from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

const TITLES = {
  cross: tr("[cross-attention|Cross-attention]: what the encoder read"),
  self: tr("[self-attention|Self-attention]: the text so far"),
  encoder: tr("What the encoder read"),
  decoder: tr("The text so far"),
};
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
const ARROW_MOVES = { ArrowLeft: -1, ArrowRight: 1 };

/** Return the class of a place's underline, by its strength relative to the other places. */
const underlineClass = (strength) =>
  strength >= STRONG ? " s3" : strength >= MIDDLE ? " s2" : strength >= WEAK ? " s1" : "";

const visiblePiece = (text) => makeVisible(text).replace(/^ +| +$/g, (s) => "·".repeat(s.length));

function formatInfluence(answer, value) {
  if (value === null) return "–";
  if (answer.method === "attention") return formatPercent(value);
  return value > 0 ? `+${formatPrecise(value, 3)}` : formatPrecise(value, 3);
}

/**
 * Return the row and column of a picture's part, both from 1.
 * @drawing
 */
function gridCell({ grid, leading }, at) {
  const place = at - leading;
  return { row: Math.floor(place / grid[1]) + 1, column: (place % grid[1]) + 1 };
}

function placeName(part, at) {
  if (part.pieces.length) return tr("“{text}”", { text: visiblePiece(part.pieces[at]) });
  if (part.grid && at < part.leading) return tr("the whole picture");
  if (part.grid) return tr("row {row}, column {column}", gridCell(part, at));
  return part.starts.length
    ? `${formatFixed(part.starts[at], 2)} s`
    : tr("part {n}", { n: at + 1 });
}

/**
 * Let the arrow keys move the focus between places; only one place is a tab stop.
 * @param {HTMLElement} box
 * @param {HTMLElement[]} nodes
 * @param {number} columns places in a row, 0 for running text
 */
function addArrowKeys(box, nodes, columns = 0) {
  const steps = { ...ARROW_MOVES, ...(columns ? { ArrowUp: -columns, ArrowDown: columns } : {}) };
  const reach = (node) => {
    for (const one of nodes) one.tabIndex = one === node ? 0 : -1;
  };
  box.addEventListener("keydown", (event) => {
    const at = nodes.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const step = steps[event.key];
    const to = { Home: 0, End: nodes.length - 1 }[event.key] ?? at + (step ?? 0);
    if (at < 0 || (step === undefined && event.key !== "Home" && event.key !== "End")) return;
    event.preventDefault();
    if (!nodes[to]) return;
    reach(nodes[to]);
    nodes[to].focus();
  });
  if (nodes.length) reach(nodes[0]);
}

/**
 * Make the button of a place; hover and focus show its value.
 * @param {any} answer
 * @param {any} part
 * @param {number} at
 * @param {{ cls: string, text: string, say: (sentence: string) => void }} shown
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
      class: `${cls}${part.values[at] < 0 ? " neg" : ""}`,
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

/** Whether a place in the text is a token of the picture. */
const isPicturePlace = ({ picture }, at) =>
  picture !== null && at >= picture[0] && at < picture[0] + picture[1] * picture[2];

function tokenStrip(answer, part, own, say) {
  const nodes = [];
  const box = el("div", {
    class: "lk-strip",
    role: "group",
    "aria-label": tr("Places and their numbers; arrow keys move"),
  });
  for (const [at, text] of part.pieces.entries()) {
    if (isPicturePlace(part, at)) {
      if (at === part.picture[0]) box.append(el("span", { class: "lk-gap" }, "▦"));
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

/** Return the picture's tokens in a text as a separate part with a grid. */
function extractPicture(part) {
  const [first, rows, columns] = part.picture;
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

/** Return the run's preview of its picture as base64, empty for none. */
const findPreview = (run) => run.media?.find(({ kind }) => kind === "image")?.preview ?? "";

function pictureGrid(run, answer, part, say) {
  const [, columns] = part.grid;
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
  const [rows] = part.grid;
  box.style.aspectRatio = preview ? "" : `${columns} / ${rows}`;
  return box;
}

/**
 * Draw one line for each part of a sound; its length is the part's strength.
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

function topList(answer, part) {
  const rows = part.top.flatMap((at, i) => {
    const place = part.pieces.length ? at + 1 : `${i + 1}.`;
    const sign = part.values[at] < 0 ? " neg" : "";
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

function renderPart(run, answer, part, own) {
  const line = el("p", { class: "dp-note inf-place", role: "status" });
  const say = (sentence) => {
    line.textContent = sentence;
  };
  const nodes = [];
  if (part.pieces.length) {
    if (part.picture) nodes.push(pictureGrid(run, answer, extractPicture(part), say));
    nodes.push(tokenStrip(answer, part, ["self", "decoder"].includes(part.kind) ? own : "", say));
  } else if (part.grid) nodes.push(pictureGrid(run, answer, part, say));
  else nodes.push(soundCurve(part));
  const title = el("h4", {}, renderTerms(TITLES[part.kind]));
  return el("section", { class: "lk-part" }, title, nodes, line, topList(answer, part));
}

/**
 * Draw the server's answer: a lead sentence, and the nodes of its parts, note and caveat.
 * @param {Run} run
 * @param {any} answer
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
