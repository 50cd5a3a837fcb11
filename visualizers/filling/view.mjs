// View of masked diffusion: the text after every pass, with the pass that wrote each word.
import { el } from "../shared/dom.mjs";
import { KEY_STEPS } from "../shared/keys.mjs";
import { StepView } from "../shared/step_view.mjs";
import { renderTerms } from "../shared/terms.mjs";
import {
  formatCount,
  formatFixed,
  formatWholePercent,
  makeVisible,
  pluralText,
  toCssLength,
  tokensText,
  tokenText,
  wordLabel,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @import { FillingSummary } from "../shared/summaries.d.ts" */

// Shares of the accent in the box of a word: of the first pass, and of the last one.
const [FIRST_SHADE, LAST_SHADE] = [0.34, 0.04];

/**
 * The share of the accent in the box of a word: the earlier, the more.
 * @drawing
 * @param {number} pass
 * @param {number} passes
 */
const shadeOf = (pass, passes) =>
  FIRST_SHADE - ((FIRST_SHADE - LAST_SHADE) * (pass - 1)) / Math.max(1, passes - 1);

/**
 * What is known of a place, in one sentence.
 * @param {Run} run
 * @param {FillingSummary} now
 * @param {number} place
 */
function describePlace(run, now, place) {
  const [id, pass, p] = [now.ids[place], now.passes[place], now.p[place]];
  if (id === null) return tr("Hidden.");
  const word = wordLabel(run, id);
  if (pass === 0) return tr("“{word}” was given.", { word });
  const values = { word, share: formatWholePercent(p ?? 0) };
  const entropy = formatFixed(now.entropy[place] ?? 0);
  const said =
    pass === null
      ? tr("Hidden; the guess is “{word}” with {share}.", values)
      : tr("“{word}” was written in pass {pass} with {share}.", { ...values, pass });
  const changed = pluralText(
    now.changes[place],
    tr("Its guess changed once before."),
    tr("Its guess changed {n} times before."),
  );
  return `${said} ${tr("Entropy: {entropy} nats.", { entropy })}${now.changes[place] ? ` ${changed}` : ""}`;
}

class Filling {
  /** @type {Run | null} */
  #run = null;
  #place = 0;
  /** @type {HTMLElement[]} */
  #boxes = [];

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.range = el("input", {
      type: "range",
      min: 1,
      value: 1,
      "aria-label": tr("Pass"),
      oninput: () => ctx.select(Number(this.range.value) - 1),
    });
    this.label = el("output", { "aria-live": "polite" });
    this.text = el("div", {
      class: "fi-text",
      role: "group",
      "aria-label": tr("The text after this pass; arrow keys move between its words"),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#moveBy(event),
    });
    this.note = el("p", { class: "dp-note fi-note" });
    root.append(
      el("label", { class: "fi-scrub" }, this.range, this.label),
      this.text,
      this.note,
      createLegend(),
    );
    this.view = new StepView(
      (run, step) => this.#paint(run, step),
      (run) => [run.steps.length],
    );
  }

  /** @param {KeyboardEvent} event */
  #moveBy(event) {
    const by = KEY_STEPS[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const last = this.#boxes.length - 1;
    this.#show(Math.max(0, Math.min(last, this.#place + by)));
    this.#boxes[this.#place]?.focus();
  }

  /**
   * Explain a place below the text.
   * @param {number} place
   */
  #show(place) {
    this.#boxes[this.#place]?.setAttribute("tabindex", "-1");
    this.#place = place;
    this.#boxes[place]?.setAttribute("tabindex", "0");
    const now = this.#run?.shown[this.#run.selected ?? 0]?.filling;
    this.note.textContent = this.#run && now ? describePlace(this.#run, now, place) : "";
  }

  /**
   * @param {Run} run
   * @param {Step} step
   */
  #paint(run, step) {
    const now = run.shown[step.index]?.filling;
    if (!now) return this.text.replaceChildren();
    this.#run = run;
    const passes = run.steps.length;
    Object.assign(this.range, { max: String(passes), value: String(step.index + 1) });
    const said = { n: step.index + 1, total: formatCount(passes) };
    this.label.textContent = [
      tr("Pass {n} of {total}", said),
      pluralText(now.hidden, tr("1 word hidden"), tr("{n} words hidden")),
    ].join(" · ");
    this.#boxes = now.ids.map((_, place) => {
      const isNew = now.passes[place] === step.index + 1;
      return this.#createBox(run, now, place, isNew);
    });
    this.text.replaceChildren(
      el("span", { class: "fi-prompt" }, tokensText(run, run.prompt_ids)),
      ...this.#boxes,
    );
    this.#show(Math.min(this.#place, this.#boxes.length - 1));
  }

  /**
   * @param {Run} run
   * @param {FillingSummary} now
   * @param {number} place
   * @param {boolean} isNew whether this pass wrote it
   */
  #createBox(run, now, place, isNew) {
    const [id, pass] = [now.ids[place], now.passes[place]];
    const kind = pass === null ? "hid" : pass ? "set" : "given";
    const said = describePlace(run, now, place);
    const shade = pass ? `${100 * shadeOf(pass, run.steps.length)}%` : "0%";
    const box = el(
      "button",
      {
        type: "button",
        class: `fi-box ${kind}${isNew ? " new" : ""}`,
        tabindex: -1,
        title: said,
        "aria-label": said,
        onclick: () => this.#show(place),
      },
      el("span", { class: "t" }, id === null ? "▢" : makeVisible(tokenText(run, id))),
      el("span", { class: "p" }, el("i", { style: { width: toCssLength(now.p[place] ?? 0) } })),
      el("span", { class: "n" }, pass === null ? "?" : pass ? String(pass) : "="),
    );
    box.style.setProperty("--fi-shade", shade);
    return box;
  }

  /** @param {Run} run */
  update(run) {
    this.view.update(run);
  }

  /**
   * @param {Run} run
   * @param {number} index
   */
  select(run, index) {
    this.view.select(run, index);
  }

  clear() {
    this.view.clear();
    this.text.replaceChildren();
    this.note.textContent = "";
  }
}

const createLegend = () =>
  el(
    "p",
    { class: "dp-legend fi-legend" },
    el(
      "span",
      {},
      renderTerms(
        tr("number: its [pass of masked diffusion|pass]; = given; ? [hidden place|hidden]"),
      ),
    ),
    el("span", {}, tr("bar: probability")),
    el("span", {}, tr("frame: new")),
  );

/** @type {ViewSpec} */
export const filling = {
  title: tr("The text after every pass"),
  heading: false,
  picture: true,
  recorded: true,
  empty: tr("The words in the order in which the passes write them."),
  mount: (root, ctx) => new Filling(root, ctx),
};
