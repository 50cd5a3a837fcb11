// View of the text token by token, shaded by surprise. A click on a token selects its step.
import { el } from "../shared/dom.mjs";
import { finalScoreText, findFinalScore } from "../shared/final_scores.mjs";
import { hasSeveralOutputs } from "../shared/record.mjs";
import { renderTerms } from "../shared/terms.mjs";
import {
  formatFixed,
  formatPercent,
  makeVisible,
  pluralText,
  tokenLabel,
  tokensText,
  tokenText,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { createToken, createTurns, SPECIAL_TOKEN } from "./chat_turns.mjs";

/** @import { OtherText, TextFigures } from "../shared/summaries.d.ts" */

const SURPRISE_LEVELS = [
  ["", tr("under 1 bit")],
  [" s1", tr("1–3 bits")],
  [" s2", tr("3–6 bits")],
  [" s3", tr("over 6 bits")],
];
/** @param {number | null} bits */
const surpriseClass = (bits) =>
  bits === null || bits < 1 ? "" : bits < 3 ? " s1" : bits < 6 ? " s2" : " s3";

/** @param {HTMLElement} special legend entry for special tokens, hidden if the text has none */
const createLegend = (special) =>
  el(
    "div",
    { class: "dp-legend" },
    el("span", {}, renderTerms(tr("[surprise|Surprise] in [bit|bits]:"))),
    SURPRISE_LEVELS.map(([shade, words]) => el("span", { class: `dp-tok${shade}` }, words)),
    special,
  );

const END_TOKEN = tr("The token that ends a text");

/**
 * The kind of a special token, empty for others. Older files list only the end tokens.
 * @param {Run} run
 * @param {number} id
 */
function tokenKind(run, id) {
  if (run.eos_token_ids.includes(id)) return END_TOKEN;
  return run.special_token_ids?.includes(id) ? SPECIAL_TOKEN : "";
}

/**
 * @param {Run} run
 * @param {number[]} ids
 */
const toReadTokens = (run, ids) =>
  ids.map((id) => ({ text: tokenText(run, id), special: tokenKind(run, id) !== "" }));

/**
 * The prompt of a run. A branch's prompt is its parent's text; the tokens added there are in bold.
 * @param {Run} run
 */
function createPrompt(run) {
  if (run.prompt_turns?.length) return el("span", { class: "dp-prompt" }, createChatPrompt(run));
  const added = run.parent ? run.parent.token_ids.length : 0;
  const cut = run.prompt_ids.length - added;
  const before = run.prompt
    ? makeVisible(run.prompt)
    : toReadTokens(run, run.prompt_ids.slice(0, cut)).map(createToken);
  const after = tokensText(run, run.prompt_ids.slice(cut));
  return el(
    "span",
    { class: "dp-prompt" },
    before,
    added ? el("b", { class: "dp-added" }, after) : null,
  );
}

/** @param {Run} run */
const createChatPrompt = (run) => createTurns(toReadTokens(run, run.prompt_ids), run.prompt_turns);

/**
 * @param {Run} run
 * @param {Token} token
 */
function describeToken(run, token) {
  const kind = tokenKind(run, token.id);
  const text = tokenLabel(run, token.id);
  const name = kind ? tr("{kind}: “{text}”", { kind, text }) : tr("“{text}”", { text });
  if (token.bits === null) return name;
  const probability = probabilityText(token);
  const bits = formatFixed(token.bits, 1);
  return tr("{name}, {probability}, surprise {bits} bits", { name, probability, bits });
}

/**
 * The model's probability and the used one by name; only one if the processors changed nothing.
 * @param {Token} token
 */
function probabilityText({ p, used }) {
  if (p === null) return tr("probability as used {used}", { used: formatPercent(used ?? 0) });
  const own = formatPercent(p);
  return used === p || used === null
    ? tr("the model's probability {own}", { own })
    : tr("the model's probability {own}, as used {used}", { own, used: formatPercent(used) });
}

/**
 * Heading of an output: its number, group, score, perplexity and length.
 * @param {Run} run
 * @param {{ output: number | null, score: number | null, group: number | null, own: TextFigures }} text
 */
function outputTitle(run, { output, score, group, own }) {
  const parts = [
    output === null ? tr("Not returned") : tr("Output {n}", { n: output + 1 }),
    run.config.num_beam_groups > 1 && group !== null ? tr("group {n}", { n: group + 1 }) : "",
    score === null ? "" : tr("score {value}", { value: formatFixed(score) }),
    own.perplexity === null
      ? ""
      : tr("perplexity {value}", { value: formatFixed(own.perplexity, 2) }),
    pluralText(own.tokens, tr("1 token"), tr("{n} tokens")),
  ];
  return parts.filter(Boolean).join(" · ");
}

/**
 * Heading of a returned output. The first output of a finished beam search also gets its score.
 * @param {Run} run
 * @param {number} sequence
 */
function outputHeading(run, sequence) {
  const at = run.steps.findLastIndex((step) => step.sequence === sequence);
  const { detail } = run.steps[at];
  const [first] = detail?.kind === "beam" && detail.stopping ? detail.heap : [];
  const { own } = run.shown[at].text;
  return outputTitle(run, {
    output: sequence,
    score: first?.score ?? null,
    group: first?.group ?? null,
    own,
  });
}

/**
 * Score from the finished text for a token without a recorded probability, empty for others.
 * @param {Run} run
 * @param {number} sequence
 * @param {number} at
 */
function finalScoreSuffix(run, sequence, at) {
  const token = run.tokens[sequence][at];
  const step = run.steps[token.step];
  const found = token.bits === null && step ? findFinalScore(run, step, at - step.keep) : null;
  return found ? `, ${finalScoreText(run, found)}` : "";
}

/** @typedef {Token & { node: HTMLElement, lead: Text }} DrawnToken */

/** @type {Record<string, number>} */
const MOVES = { ArrowLeft: -1, ArrowRight: 1 };

class TokenStrip {
  // Whether the labels contain the scores of the finished text, which come with the end of the run.
  #describesScores = false;
  /** @type {{ line: HTMLElement, tokens: DrawnToken[] }[]} */
  #rows = [];
  /** @type {HTMLElement[]} */
  #others = [];
  /** @type {HTMLElement | null} */
  #selected = null;
  /** @type {Run | null} */
  #run = null;

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
    this.special = el(
      "span",
      { class: "dp-tok special", hidden: true },
      renderTerms(tr("[special token]")),
    );
    root.append(this.box, createLegend(this.special));
  }

  /** @param {KeyboardEvent} event */
  #handleKey(event) {
    const move = MOVES[event.key];
    if (event.key === "Home") this.ctx.select(0);
    else if (event.key === "End") this.ctx.select(1e9);
    else if (move) this.ctx.select((this.#run?.selected ?? 0) + move);
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
        const made = this.#createToken(run, token);
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
   */
  #createToken(run, token) {
    const text = tokenText(run, token.id);
    const special = tokenKind(run, token.id) ? " special" : "";
    if (special) this.special.hidden = false;
    const said = describeToken(run, token);
    const choose = () => this.ctx.select(token.step);
    const node = el("span", {
      role: "button",
      class: `dp-tok new${surpriseClass(token.bits)}${special}`,
      tabindex: -1,
      title: said,
      "aria-label": said,
      "data-step": token.step,
      onclick: choose,
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        choose();
        event.preventDefault();
      },
    });
    // The leading space is outside the box, so that a line break does not split box or underline.
    const lead = /^ +(?=\S)/.exec(text)?.[0] ?? "";
    // A line break is shown as a mark and also breaks the line.
    text
      .slice(lead.length)
      .split("\n")
      .forEach((part, i) => {
        if (i) node.append(el("span", { class: "ws" }, "⏎"), "\n");
        node.append(makeVisible(part));
      });
    return { ...token, node, lead: document.createTextNode(lead) };
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
        const made = this.#createToken(run, token);
        line.append(made.lead, made.node);
        tokens.push(made);
      }
      const who = line.querySelector(".who");
      if (who) who.textContent = outputHeading(run, sequence);
    });
    if (run.emitted?.length && !this.#describesScores) this.#describeScores(run);
    const others = run.shown.at(-1)?.text.others ?? [];
    if (others.length !== this.#others.length) this.#showOthers(run, others);
  }

  /** @param {Run} run */
  #describeScores(run) {
    this.#describesScores = true;
    for (const [sequence, { tokens }] of this.#rows.entries())
      for (const [at, token] of tokens.entries()) {
        const said = `${describeToken(run, token)}${finalScoreSuffix(run, sequence, at)}`;
        token.node.title = said;
        token.node.setAttribute("aria-label", said);
      }
  }

  /**
   * @param {Run} _run
   * @param {number} index
   */
  select(_run, index) {
    if (this.#selected) {
      this.#selected.classList.remove("sel");
      this.#selected.tabIndex = -1;
    }
    this.#selected = this.box.querySelector(`[data-step="${index}"]`);
    if (!this.#selected) return;
    this.#selected.classList.add("sel");
    this.#selected.tabIndex = 0;
  }

  clear() {
    this.box.replaceChildren();
    this.special.hidden = true;
    this.#describesScores = false;
    this.#rows = [];
    this.#others = [];
    this.#selected = null;
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
