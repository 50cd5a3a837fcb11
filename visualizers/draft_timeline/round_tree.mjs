// Picture of a draft tree: every guess with the draft model's chance, and the branch that the main model followed.
import { createScroller, createTable, el, svg } from "../shared/dom.mjs";
import { formatWholePercent, pluralText, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { textBefore, VERDICTS } from "./words.mjs";

const COLUMN = 128;
const BOX = 108;
const ROW = 34;
const HEIGHT = 26;
const MAX_LABEL = 8;

/** @type {Record<string, [string, string]>} */
const FATES = {
  ...VERDICTS,
  unverified: ["", VERDICTS.unverified[1]],
  own: ["→", tr("main model's own word")],
};

/**
 * A word in the picture: a guess, the last word of the text, or the word that the main model added.
 * @typedef {object} TreeWord
 * @property {number} id
 * @property {number} parent index of the word before it, -1 for the first
 * @property {string} kind
 * @property {number | null} share chance under the draft model
 * @property {number} x
 * @property {number} y
 */

/**
 * The words of a round in order: the last one of the text, the guesses, and the main model's own.
 * @param {Run} run
 * @param {Step} step
 * @returns {TreeWord[]}
 */
function listWords(run, step) {
  /** @type {DraftDetail} */
  const { tree, final_token_id: final, final_source: source } = step.detail;
  const before = textBefore(run, step);
  const place = { x: 0, y: 0 };
  const root = { id: before[before.length - 1], parent: -1, kind: "root", share: null, ...place };
  const guesses = tree.map((node) => ({
    id: node.token_id,
    parent: (node.parent ?? -1) + 1,
    kind: node.status,
    share: node.q,
    ...place,
  }));
  const words = [root, ...guesses];
  if (source === "ended") return words;
  const last = words.map(({ kind }) => kind).lastIndexOf("accepted");
  return [...words, { id: final, parent: Math.max(0, last), kind: "own", share: null, ...place }];
}

/**
 * Give every word its place: a column for each level, and a row for each branch.
 * @drawing
 * @param {TreeWord[]} words
 */
function placeWords(words) {
  let rows = 0;
  /** @param {number} i */
  const place = (i) => {
    const children = words.flatMap((word, n) => (word.parent === i ? [n] : []));
    for (const child of children) {
      words[child].x = words[i].x + COLUMN;
      place(child);
    }
    words[i].y = children.length ? words[children[0]].y : ROW * rows++;
  };
  place(0);
  return { width: Math.max(...words.map(({ x }) => x)) + BOX + 2, height: ROW * rows };
}

/**
 * The line from a word to one after it.
 * @drawing
 * @param {TreeWord} from
 * @param {TreeWord} to
 */
function createEdge(from, to) {
  const [x1, y1, x2, y2] = [from.x + BOX, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  const middle = (x1 + x2) / 2;
  const d = `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`;
  return svg("path", { class: `dt-edge n-${to.kind}`, d });
}

/** @param {string} text */
const shorten = (text) => (text.length > MAX_LABEL ? `${text.slice(0, MAX_LABEL - 1)}…` : text);

/**
 * @param {Run} run
 * @param {TreeWord} word
 */
function describeWord(run, { id, kind, share }) {
  const text = tokenLabel(run, id);
  if (kind === "root") return tr("“{text}”: the last word of the text", { text });
  if (share === null) return tr("“{text}”: {what}", { text, what: FATES[kind][1] });
  return tr("“{text}”: {what}; draft {share}", {
    text,
    what: FATES[kind][1],
    share: formatWholePercent(share),
  });
}

/**
 * The box of a word, with the draft model's chance.
 * @drawing
 * @param {Run} run
 * @param {TreeWord} word
 */
function createWord(run, word) {
  const sign = FATES[word.kind]?.[0] ?? "";
  const text = shorten(tokenLabel(run, word.id).replace(/^·/, ""));
  const share = word.share === null ? "" : formatWholePercent(word.share);
  return svg(
    "g",
    { class: `dt-node n-${word.kind}`, transform: `translate(${word.x + 1},${word.y + 1})` },
    svg("title", {}, describeWord(run, word)),
    svg("rect", { width: BOX - 2, height: HEIGHT - 2, rx: 5 }),
    svg("text", { class: "w", x: 7, y: 16 }, sign ? `${sign} ${text}` : text),
    svg("text", { class: "s", x: BOX - 8, y: 16, "text-anchor": "end" }, share),
  );
}

/**
 * @param {Run} run
 * @param {DraftDetail} detail
 */
function createGuessTable(run, { tree }) {
  const rows = tree.map(({ token_id: id, parent, q, p, status }) => [
    tokenLabel(run, id),
    parent === null ? "" : tokenLabel(run, tree[parent].token_id),
    formatWholePercent(q),
    p === null ? "–" : formatWholePercent(p),
    FATES[status][1],
  ]);
  return el(
    "details",
    { class: "dp-more" },
    el("summary", {}, tr("Table of these guesses")),
    createTable(
      [tr("guess"), tr("after"), tr("draft model"), tr("main model"), tr("status")],
      rows,
    ),
  );
}

/**
 * The tree of a round, and the same as a table.
 * @param {Run} run
 * @param {Step} step
 */
export function createRoundTree(run, step) {
  /** @type {DraftDetail} */
  const detail = step.detail;
  const words = listWords(run, step);
  const { width, height } = placeWords(words);
  const kept = detail.tree.filter(({ status }) => status === "accepted").length;
  const label = pluralText(
    detail.tree.length,
    tr("A tree of 1 guess; {kept} kept", { kept }),
    tr("A tree of {n} guesses; {kept} kept", { kept }),
  );
  // What was followed is drawn last, over the rest.
  const order = (/** @type {TreeWord} */ { kind }) => Number(["accepted", "own"].includes(kind));
  const edges = words
    .slice(1)
    .sort((a, b) => order(a) - order(b))
    .map((word) => createEdge(words[word.parent], word));
  const picture = svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    edges,
    words.map((word) => createWord(run, word)),
  );
  return el(
    "div",
    { class: "dt-tree" },
    createScroller(label, picture),
    createGuessTable(run, detail),
  );
}
