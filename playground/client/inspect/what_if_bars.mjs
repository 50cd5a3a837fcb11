// The bars of the What if view: each candidate's probability before and after the settings, with
// lines where a filter cuts.
import { el } from "../../../visualizers/shared/dom.mjs";
import { processorTitle } from "../../../visualizers/shared/processors.mjs";
import {
  formatCount,
  formatPercent,
  toCssLength,
  tokenLabel,
} from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

const COLUMN_HEADS = [tr("token"), "", tr("the model's own → with your settings")];

/**
 * A candidate under the new settings.
 * @typedef {object} Option
 * @property {number} id
 * @property {number} raw the model's own probability
 * @property {number} used its probability with the settings
 * @property {string | null} removed the filter that removed it
 */

/** @typedef {{ name: string, kept: number, cut: number | null }} CutStage */

/** The table of candidates with their bars. Rows are reused for a token, so that its bars animate. */
export class CandidateBars {
  /** @type {Map<number, Row>} */
  #rows = new Map();

  constructor() {
    const heads = COLUMN_HEADS.map((text) => el("th", { scope: "col" }, text));
    this.body = el("tbody", {});
    this.node = el(
      "table",
      { class: "wi-bars", "aria-label": tr("Candidates under these settings") },
      el("thead", {}, el("tr", {}, heads)),
      this.body,
    );
    this.node.hidden = true;
  }

  clear() {
    this.#rows.clear();
    this.body.replaceChildren();
    this.node.hidden = true;
  }

  /**
   * @param {Run} run
   * @param {object} answer of the server
   * @param {Option[]} answer.options
   * @param {{ raw: number, used: number }} answer.rest all other tokens
   * @param {CutStage[]} answer.stages
   * @param {number} answer.token
   * @param {number} answer.recorded
   */
  show(run, { options, rest, stages, token, recorded }) {
    const known = this.#rows;
    this.#rows = new Map();
    const lines = [];
    /** @type {string | null} */
    let removed = null;
    for (const option of options) {
      if (option.removed !== removed) lines.push(...createCutRows(stages, option.removed));
      removed = option.removed;
      const row = known.get(option.id) ?? createRow(tokenLabel(run, option.id));
      fillRow(row, option, option.id === token, option.id === recorded && token !== recorded);
      this.#rows.set(option.id, row);
      lines.push(row.line);
    }
    const others = createRow(tr("all others"));
    fillRow(others, { raw: rest.raw, used: rest.used, removed: null }, false, false);
    this.body.replaceChildren(...lines, others.line);
    this.node.hidden = false;
  }
}

/** @typedef {ReturnType<typeof createRow>} Row */

/** @param {string} name */
function createRow(name) {
  const used = el("i", {});
  const raw = el("u", {});
  const number = el("td", { class: "n" });
  const tag = el("span", { class: "wi-tag" });
  const mark = el("span", { class: "wi-mark", "aria-hidden": "true" });
  const words = el("span", { class: "wi-name" }, name);
  const label = el("th", { scope: "row", class: "t", title: name }, mark, words, tag);
  const bar = el("td", { class: "b" }, el("span", {}, used, raw));
  return { line: el("tr", {}, label, bar, number), used, raw, number, tag, mark };
}

/**
 * @param {Row} row
 * @param {Omit<Option, "id">} option
 * @param {boolean} taken
 * @param {boolean} was whether the run recorded this token, and another one is taken now
 */
function fillRow({ line, used, raw, number, tag, mark }, option, taken, was) {
  line.className = `${option.removed ? "gone" : ""}${taken ? " on" : ""}`;
  used.style.width = toCssLength(option.used);
  raw.style.width = toCssLength(option.raw);
  number.textContent = `${formatPercent(option.raw)} → ${formatPercent(option.used)}`;
  mark.textContent = taken ? "▸ " : "";
  tag.textContent = taken ? tr(" taken") : was ? tr(" recorded") : "";
}

/**
 * Return the line below which a processor has removed all candidates.
 * @param {CutStage[]} stages
 * @param {string | null} name
 */
function createCutRows(stages, name) {
  const stage = stages.find((s) => s.name === name);
  if (!stage || !name) return [];
  const { kept, cut } = stage;
  const left = { title: processorTitle(name), n: formatCount(kept) };
  const words =
    cut === null
      ? tr("{title} leaves {n}", left)
      : tr("{title} leaves {n}, each with at least {p}", { ...left, p: formatPercent(cut) });
  return [
    el(
      "tr",
      { class: "wi-cut" },
      el("td", { colspan: COLUMN_HEADS.length }, el("span", {}, words)),
    ),
  ];
}
