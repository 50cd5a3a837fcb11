// View of the text token by token, marked by surprise or by what its strategy did. A click on a token selects its step.
import { el } from "../shared/dom.mjs";
import {
  findSelectedWord,
  findWord,
  hasSeveralOutputs,
  moveWord,
  selectWord,
} from "../shared/record.mjs";
import { makeVisible, tokenText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { Arcs, listArcs } from "./arcs.mjs";
import { FirstChange } from "./first_change.mjs";
import { createMarkLegend, findMark } from "./marks.mjs";
import { createPrompt } from "./prompt.mjs";
import { createThinkingLegend, markThinking } from "./thinking.mjs";
import {
  describeToken,
  finalScoreSuffix,
  outputHeading,
  outputTitle,
  tokenKind,
} from "./words.mjs";

/** @import { OtherText } from "../shared/summaries.d.ts" */

/** @import { Mark } from "./marks.mjs" */

/** @typedef {Token & { node: HTMLElement, lead: HTMLElement | Text, mark: Mark }} DrawnToken */

/**
 * @param {Run} run
 * @param {Token} token
 * @param {Mark} mark
 */
const describeMarked = (run, token, { said }) =>
  [describeToken(run, token), said].filter(Boolean).join(", ");

/**
 * What is before the box of a token, so that a line break does not split the box: its space, and a
 * guess that was refused there.
 * @param {string} space
 * @param {Mark} mark
 */
const createLead = (space, { before }) =>
  before ? el("span", {}, " ", before, " ") : document.createTextNode(space);

/**
 * Whether a token continues the word that the token before it began.
 * @param {string} before
 * @param {string} text
 */
const isOneWord = (before, text) =>
  /[\p{L}\p{M}\p{N}]$/u.test(before) && /^['’]?[\p{L}\p{M}\p{N}]/u.test(text);

/** @type {Record<string, number>} */
const MOVES = { ArrowLeft: -1, ArrowRight: 1 };

// Pixels around a word that was scrolled to.
const SCROLL_MARGIN = 8;

class TokenStrip {
  // Whether the labels contain the scores of the finished text, which come with the end of the run.
  #describesScores = false;
  // Whether the thinking sections are marked, which come with the end of the run, too.
  #marksThinking = false;
  /** @type {{ line: HTMLElement, tokens: DrawnToken[] }[]} */
  #rows = [];
  /** @type {HTMLElement[]} */
  #others = [];
  /** @type {HTMLElement | null} */
  #selected = null;
  /**
   * The word that Tab leads to: the selected one, or the first one, as a pass of masked diffusion
   * selects none.
   * @type {HTMLElement | null}
   */
  #entry = null;
  /** @type {Run | null} */
  #run = null;
  #change = new FirstChange();
  #arcs = new Arcs();

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.box = el("div", {
      class: "dp-strip",
      role: "group",
      "aria-label": tr("Tokens; arrow keys move, the details below follow"),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#handleKey(event),
    });
    this.special = el("span", { class: "dp-tok special", hidden: true }, tr("special token"));
    this.legend = el("div", { class: "dp-legend tx-legend" });
    root.append(this.box, this.legend);
    new ResizeObserver(() => this.#run && this.#drawArcs(this.#run)).observe(this.box);
  }

  /** @param {KeyboardEvent} event */
  #handleKey(event) {
    const [run, move] = [this.#run, MOVES[event.key]];
    if (!run) return;
    if (event.key === "Home") selectWord(run, this.ctx, 0);
    else if (event.key === "End") selectWord(run, this.ctx, Number.POSITIVE_INFINITY);
    else if (move) moveWord(run, this.ctx, move);
    else return;
    event.preventDefault();
    requestAnimationFrame(() => requestAnimationFrame(() => this.#selected?.focus()));
  }

  /**
   * @param {Run} run
   * @param {number} sequence
   */
  #ensureRow(run, sequence) {
    if (this.#rows[sequence]) return this.#rows[sequence];
    const line = el(
      "div",
      {},
      hasSeveralOutputs(run) ? el("span", { class: "who" }) : null,
      run.model.is_encoder_decoder ? null : createPrompt(run),
    );
    this.box.append(line);
    this.#rows[sequence] = { line, tokens: [] };
    return this.#rows[sequence];
  }

  /**
   * Show the other finished texts of a beam search.
   * @param {Run} run
   * @param {OtherText[]} others
   */
  #showOthers(run, others) {
    for (const [i, other] of others.entries()) {
      const line = el(
        "div",
        { class: "other" },
        el("span", { class: "who" }, outputTitle(run, other)),
        run.model.is_encoder_decoder ? null : createPrompt(run),
      );
      other.token_ids.forEach((id, step) => {
        const { p, used, bits } = other;
        const token = { id, step, p: p[step], used: used[step], bits: bits[step] };
        const made = this.#createToken(run, token, step, other.token_ids[step - 1]);
        line.append(made.lead, made.node);
      });
      this.#others[i]?.remove();
      this.#others[i] = line;
      this.box.append(line);
    }
  }

  /**
   * @param {Run} run
   * @param {Token} token
   * @param {number} at its index in the text
   * @param {number | undefined} before id of the token before it
   */
  #createToken(run, token, at, before) {
    const text = tokenText(run, token.id);
    const joined = before !== undefined && isOneWord(tokenText(run, before), text) ? " joined" : "";
    const special = tokenKind(run, token.id) ? " special" : "";
    if (special) this.special.hidden = false;
    const mark = findMark(run, token, at);
    const said = describeMarked(run, token, mark);
    const { step, offset } = findWord(run, token.step, at);
    const choose = () => this.ctx.select(step, undefined, offset);
    const node = el("span", {
      role: "button",
      class: `dp-tok new${mark.classes}${special}${joined}`,
      tabindex: -1,
      title: said,
      "aria-label": said,
      "data-step": step,
      onclick: choose,
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        choose();
        event.preventDefault();
      },
    });
    const lead = /^ +(?=\S)/.exec(text)?.[0] ?? "";
    // A line break is shown as a mark and also breaks the line.
    text
      .slice(lead.length)
      .split("\n")
      .forEach((part, i) => {
        if (i) node.append(el("span", { class: "ws" }, "⏎"), "\n");
        node.append(makeVisible(part));
      });
    return { ...token, node, mark, lead: createLead(lead, mark) };
  }

  /**
   * Add new tokens. Tokens that did not change keep their elements.
   * @param {Run} run
   */
  update(run) {
    this.#run = run;
    run.tokens.forEach((list, sequence) => {
      const { line, tokens } = this.#ensureRow(run, sequence);
      let same = 0;
      while (
        same < tokens.length &&
        same < list.length &&
        tokens[same].id === list[same].id &&
        tokens[same].step === list[same].step
      )
        same++;
      for (const { lead, node } of tokens.splice(same)) {
        lead.remove();
        node.remove();
      }
      for (const token of list.slice(same)) {
        const made = this.#createToken(run, token, tokens.length, tokens.at(-1)?.id);
        line.append(made.lead, made.node);
        tokens.push(made);
      }
      const who = line.querySelector(".who");
      if (who) who.textContent = outputHeading(run, sequence);
    });
    if (run.emitted?.length && !this.#describesScores) this.#describeScores(run);
    const others = run.shown.at(-1)?.text.others ?? [];
    if (others.length !== this.#others.length) this.#showOthers(run, others);
    if (run.steps.length && !this.legend.childElementCount)
      this.legend.replaceChildren(...createMarkLegend(run), this.special);
    if (run.thinking && !this.#marksThinking) this.#markThinking(run);
    const texts = this.#rows.map(({ tokens }) => tokens);
    this.#change.show(run, texts, this.ctx.preview?.first);
  }

  /** @param {Run} run */
  #markThinking(run) {
    this.#marksThinking = true;
    markThinking(
      run,
      this.#rows.map(({ tokens }) => tokens),
    );
    this.legend.append(...createThinkingLegend(run));
    this.#describeWords(run);
  }

  /** @param {Run} run */
  #describeScores(run) {
    this.#describesScores = true;
    this.#describeWords(run);
  }

  /** @param {Run} run */
  #describeWords(run) {
    for (const [sequence, { tokens }] of this.#rows.entries())
      for (const [at, token] of tokens.entries()) {
        const score = finalScoreSuffix(run, sequence, at);
        const said = `${describeMarked(run, token, token.mark)}${score}`;
        token.node.title = said;
        token.node.setAttribute("aria-label", said);
      }
  }

  /**
   * Mark the selected word.
   * @param {Run} run
   */
  select(run) {
    this.#selected?.classList.remove("sel");
    if (this.#entry) this.#entry.tabIndex = -1;
    const words = this.#rows.flatMap(({ tokens }) => tokens);
    this.#selected = words[findSelectedWord(run)]?.node ?? null;
    this.#entry = this.#selected ?? words[0]?.node ?? null;
    if (this.#entry) this.#entry.tabIndex = 0;
    this.#drawArcs(run);
    if (!this.#selected) return;
    this.#selected.classList.add("sel");
    this.#scrollTo(this.#selected);
  }

  /**
   * Scroll a long text to a word that is out of sight; the page stays where it is.
   * @param {HTMLElement} word
   */
  #scrollTo(word) {
    const [frame, place] = [this.box, word].map((node) => node.getBoundingClientRect());
    const above = Math.min(0, place.top - frame.top - SCROLL_MARGIN);
    const below = Math.max(0, place.bottom - frame.bottom + SCROLL_MARGIN);
    if (this.box.scrollHeight > this.box.clientHeight) this.box.scrollTop += above || below;
  }

  /** @param {Run} run */
  #drawArcs(run) {
    const step = run.steps[run.selected ?? -1];
    const row = step && this.#rows[step.sequence];
    if (!row) return;
    const places = [...row.line.querySelectorAll(".tx-place")];
    const before = run.model.is_encoder_decoder ? 0 : run.prompt_ids.length;
    this.box.append(this.#arcs.node);
    this.#arcs.draw(this.box, listArcs(run, step), (place) =>
      place < before ? places[place] : row.tokens[place - before]?.node,
    );
  }

  clear() {
    this.#change.clear();
    this.box.replaceChildren();
    this.legend.replaceChildren();
    this.special.hidden = true;
    this.#describesScores = false;
    this.#marksThinking = false;
    this.#rows = [];
    this.#others = [];
    this.#selected = null;
    this.#entry = null;
  }
}

/** @type {ViewSpec} */
export const strip = {
  title: tr("Text"),
  heading: false,
  empty: tr(
    "Press Run: the text appears here token by token, and every token can be opened to see what else was possible.",
  ),
  mount: (root, ctx) => new TokenStrip(root, ctx),
};
