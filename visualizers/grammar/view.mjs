// View of a text under its grammar: a ribbon of how much was allowed at each token, and what the grammar
// did at the selected one.
import { el } from "../shared/dom.mjs";
import { findSelectedOffset, findWord } from "../shared/record.mjs";
import { StepView } from "../shared/step_view.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatPercent, makeVisible, toCssLength, tokenText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { createTexts } from "./texts.mjs";
import { placeTexts, pushText, sumText, wantedText } from "./words.mjs";

/** @import { GrammarText, GrammarToken } from "../shared/trace.d.ts" */

const LEVELS = [
  { above: 0.5, kind: "gr-0", title: tr("over 50 %") },
  { above: 0.1, kind: "gr-1", title: tr("10 to 50 %") },
  { above: 0.01, kind: "gr-2", title: tr("1 to 10 %") },
  { above: 0, kind: "gr-3", title: tr("under 1 %") },
];

/** @param {number | null} allowed */
const shadeOf = (allowed) =>
  allowed === null ? "gr-unknown" : (LEVELS.find(({ above }) => allowed > above)?.kind ?? "gr-3");

/**
 * Place of the selected word in the text of its step.
 * @param {Run} run
 * @param {Step} step
 */
function selectedPlace(run, step) {
  const offset = findSelectedOffset(run, step);
  return run.tokens[step.sequence].findIndex(({ step: index }, at) => {
    const word = findWord(run, index, at);
    return word.step === step.index && (word.offset ?? offset) === offset;
  });
}

/** @param {string} kind @param {string} title */
const createKey = (kind, title) => el("span", {}, el("i", { class: `gr-key ${kind}` }), title);

/** @param {GrammarText} text */
const createLegend = ({ tokens, known }) =>
  el(
    "div",
    { class: "dp-legend gr-legend" },
    known ? el("span", {}, tr("The model gave the allowed words:")) : null,
    known ? LEVELS.map(({ kind, title }) => createKey(kind, title)) : null,
    tokens.some(({ allowed }) => allowed === null) ? createKey("gr-unknown", tr("unknown")) : null,
    tokens.some(({ forced }) => forced) ? createKey("gr-forced", tr("no other text")) : null,
    tokens.some(({ may_end }) => may_end) ? createKey("gr-end", tr("may end before it")) : null,
    tokens.some(({ odd_split }) => odd_split) ? createKey("gr-odd", tr("unusual cut")) : null,
  );

/**
 * @param {Run} run
 * @param {Token} token
 * @param {GrammarToken} about
 * @param {boolean} selected
 * @param {() => void} choose
 */
function createToken(run, token, about, selected, choose) {
  const marks = [
    about.forced && "gr-forced",
    about.may_end && "gr-end",
    about.odd_split && "gr-odd",
    selected && "sel",
  ];
  const classes = ["gr-tok", shadeOf(about.allowed), ...marks].filter(Boolean).join(" ");
  const title = about.allowed === null ? null : formatPercent(about.allowed);
  return el(
    "span",
    { class: classes, title, onclick: choose },
    makeVisible(tokenText(run, token.id)),
  );
}

/** @param {number} allowed */
const createBar = (allowed) =>
  el(
    "div",
    { class: "gr-bar" },
    el("i", { style: { width: toCssLength(allowed) }, "aria-hidden": "true" }),
    el(
      "span",
      {},
      tr("The model gave the allowed words {share}.", { share: formatPercent(allowed) }),
    ),
  );

/**
 * @param {Run} run
 * @param {GrammarToken} token
 */
const createTokenNote = (run, token) => [
  token.allowed === null
    ? el("p", {}, tr("What the model gave the allowed words was not recorded at this token."))
    : createBar(token.allowed),
  el("p", { class: "gr-say" }, [wantedText(run, token), ...placeTexts(token)].join(" ").trim()),
];

/**
 * @param {Run} run
 * @param {Step} step
 * @param {Context} ctx
 */
function createMicroscope(run, step, ctx) {
  const text = run.grammar[step.sequence];
  const tokens = run.tokens[step.sequence];
  const selected = selectedPlace(run, step);
  const push = pushText(
    run,
    text,
    tokens.map(({ id }) => id),
  );
  const ribbon = tokens.map((token, at) => {
    const word = findWord(run, token.step, at);
    const choose = () => ctx.select(word.step, undefined, word.offset);
    return createToken(run, token, text.tokens[at], at === selected, choose);
  });
  return [
    el("p", { class: "gr-push" }, push),
    // The words above have the same tokens for a keyboard and for a screen reader.
    el("div", { class: "gr-ribbon", role: "img", "aria-label": push }, ribbon),
    createLegend(text),
    selected < 0
      ? null
      : el("div", { class: "gr-token" }, createTokenNote(run, text.tokens[selected])),
    text.known ? el("p", { class: "dp-note" }, renderTerms(sumText(text))) : null,
  ].filter((part) => part !== null);
}

/**
 * Whether the texts of a run and the records of their grammar have the same tokens.
 * @param {Run} run
 */
const isRecorded = ({ grammar, tokens }) =>
  grammar?.length > 0 && tokens.every((list, i) => grammar[i]?.tokens.length === list.length);

/** @type {ViewSpec} */
export const grammar = {
  title: tr("What the grammar did"),
  recorded: true,
  mount(root, ctx) {
    const card = root.parentElement ?? root;
    const body = el("div", {});
    const texts = el("div", { class: "gt-texts", tabindex: -1, hidden: true });
    root.append(body, texts);
    card.hidden = true;
    /** @type {Run["grammar_texts"]} */
    let drawn;
    const view = new StepView(
      (run, step) => body.replaceChildren(...createMicroscope(run, step, ctx)),
      (run) => [run.grammar],
    );
    /** @type {View} */
    const shown = {
      update(run) {
        card.hidden = !isRecorded(run);
        if (card.hidden) return;
        view.update(run);
        if (run.grammar_texts === drawn) return;
        drawn = run.grammar_texts;
        texts.replaceChildren(...(drawn ? createTexts(run, drawn) : []));
        texts.hidden = !drawn;
      },
      select(run, index) {
        if (isRecorded(run)) view.select(run, index);
      },
      clear() {
        card.hidden = true;
        view.clear();
        drawn = undefined;
        texts.replaceChildren();
        texts.hidden = true;
      },
    };
    return shown;
  },
};
