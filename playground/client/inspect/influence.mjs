// The influence panel: which places of the input mattered for a token, by one of three methods.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { findSelectedNode, findSelectedOffset } from "../../../visualizers/shared/record.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tokenLabel } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { renderInfluence } from "./influence_parts.mjs";
import { askAboutStep } from "./step_questions.mjs";

/** @import { Influence } from "./influence_parts.mjs" */

const PAUSE_MS = 300;
const ATTENTION = "attention";
/** @type {[string, string][]} */
export const INFLUENCE_METHODS = [
  [ATTENTION, tr("Attention")],
  ["gradient", tr("Gradient × input")],
  ["leave-one-out", tr("Leave one out")],
];
// Takes many forward passes, so it is asked only by a press and not on every new step.
const MANUAL_METHOD = "leave-one-out";
const HINT = tr(
  "Which earlier words mattered for this token? Attention is fast; leave-one-out is slower but more reliable.",
);
const RUNNING = tr("When the run has ended, you can see the influence at every step.");
const ASK_AGAIN = tr("This is another step: press again to ask about it.");
const STOPPED = tr("Stopped.");

/**
 * Make a labelled select.
 * @param {string} label
 * @param {() => void} onchange
 */
function createPicker(label, onchange) {
  const select = el("select", { onchange });
  return { select, node: el("label", { class: "lk-pick" }, label, " ", select) };
}

class InfluencePanel {
  /** @type {Run | null} */
  #run = null;
  #index = -1;
  // For a beam search: the node that the stage shows at this step.
  /** @type {{ node_id?: number }} */
  #node = {};
  #key = "";
  #timer = 0;
  #question = new StoppableQuestion({ latestOnly: true });
  #method = "";

  /** @param {HTMLElement} root */
  constructor(root) {
    this.methods = INFLUENCE_METHODS.map(([name, title]) =>
      createButton(title, () => this.#choose(name), {
        "aria-pressed": "false",
        "data-method": name,
      }),
    );
    this.stop = createButton(tr("Stop"), () => this.#stopQuestion(), { class: "dp-btn lk-stop" });
    const label = tr("How to ask");
    this.row = el("div", { class: "dp-row lk-methods", role: "group", "aria-label": label });
    this.row.append(...this.methods, this.stop);
    const again = () => this.#ask();
    this.at = createPicker(tr("Token"), again);
    this.layer = createPicker(tr("Layer"), again);
    this.head = createPicker(tr("Head"), again);
    this.picks = el("div", { class: "dp-row lk-picks" });
    this.picks.append(this.at.node, this.layer.node, this.head.node);
    this.say = el("p", { class: "dp-note lk-say", role: "status" });
    this.found = el("div", { class: "lk-found" });
    root.classList.add("inf-root");
    root.append(this.row, this.picks, this.say, this.found);
    this.root = root;
    this.#showIdle("");
  }

  /**
   * Follow the selected step of a run that changed.
   * @param {Run} run
   */
  update(run) {
    const at = run.selected ?? -1;
    if (run.steps[at]) this.select(run, at);
  }

  /**
   * Show a step: ask about it after a pause, unless the method is only asked by a press.
   * @param {Run} run
   * @param {number} index
   */
  select(run, index) {
    const running = run.status === "running";
    const node = findSelectedNode(run, run.steps[index])?.node.node_id;
    const key = `${run.id}:${index}:${run.offset ?? ""}:${node}:${running}`;
    if (key === this.#key) return;
    this.#key = key;
    this.#run = run;
    this.#index = index;
    this.#node = node === undefined ? {} : { node_id: node };
    const able = !running && run.status !== "failed";
    for (const one of this.methods) one.disabled = !able;
    this.#offerTokens(run, run.steps[index]);
    if (!able) return this.#showIdle(running ? RUNNING : "");
    if (this.#method === MANUAL_METHOD) return this.#showIdle(ASK_AGAIN);
    if (!this.#method) return this.#showIdle(HINT);
    this.#question.forget();
    this.root.setAttribute("aria-busy", "true");
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.#ask(), PAUSE_MS);
  }

  clear() {
    this.#run = null;
    this.#key = "";
    this.#showIdle(HINT);
  }

  /**
   * Offer the tokens of a step: a drafting round emits several, each decided at another position.
   * @param {Run} run
   * @param {Step} step
   */
  #offerTokens(run, step) {
    const several = step.emit.length > 1 && step.detail?.kind !== "beam";
    const options = step.emit.map((id, i) =>
      el("option", { value: i }, `${i + 1} ${tokenLabel(run, id)}`),
    );
    this.at.select.replaceChildren(...(several ? options : []));
    if (several) this.at.select.value = String(findSelectedOffset(run, step));
    this.at.node.hidden = !several;
  }

  /** @param {string} method */
  #choose(method) {
    this.#method = method;
    this.#ask();
  }

  /**
   * Show that no question is open, and why.
   * @param {string} sentence
   */
  #showIdle(sentence, kind = "") {
    this.#question.forget();
    clearTimeout(this.#timer);
    this.root.removeAttribute("aria-busy");
    this.stop.hidden = true;
    this.#pressed();
    this.#showStatus(sentence, kind);
    this.found.replaceChildren();
    this.layer.node.hidden = true;
    this.head.node.hidden = true;
  }

  #pressed() {
    for (const one of this.methods)
      one.setAttribute("aria-pressed", String(one.dataset.method === this.#method));
  }

  /** @param {string} sentence */
  #showStatus(sentence, kind = "") {
    this.say.className = `dp-note lk-say ${kind}`;
    if (this.say.textContent !== sentence) this.say.textContent = sentence;
  }

  #stopQuestion() {
    this.#question.stop();
    if (this.#method === MANUAL_METHOD) this.#method = "";
    this.#showIdle(STOPPED);
    this.methods[0].focus();
  }

  async #ask() {
    const run = this.#run;
    const index = this.#index;
    if (!run?.steps[index] || !this.#method) return;
    // A hidden panel does not ask; clearing the key makes it ask when it is opened.
    if (!this.root.isConnected || this.root.offsetParent === null) {
      this.#key = "";
      return;
    }
    clearTimeout(this.#timer);
    this.root.setAttribute("aria-busy", "true");
    this.stop.hidden = false;
    this.#pressed();
    this.#showStatus(tr("Asking…"));
    const { select } = this.at;
    const asked = {
      action: "looked",
      step: index,
      method: this.#method,
      ...this.#node,
      ...(select.options.length ? { at: Number(select.value) } : {}),
      ...this.#heads(),
    };
    const answer = await this.#question.ask((press) => askAboutStep(run, { ...asked, press }));
    if (!answer || !run.steps[index]) return;
    if (answer.error) return this.#showIdle(`⚠ ${said(answer.error)}`, "bad");
    this.#show(run, answer);
  }

  // The chosen layer and head; the server averages over what is missing.
  #heads() {
    /**
     * @param {string} name
     * @param {ReturnType<typeof createPicker>} picker
     */
    const chosen = (name, { select }) => (select.value ? { [name]: Number(select.value) } : {});
    if (this.#method !== ATTENTION) return {};
    return { ...chosen("layer", this.layer), ...chosen("head", this.head) };
  }

  /**
   * @param {Run} run
   * @param {Influence} answer
   */
  #show(run, answer) {
    this.root.removeAttribute("aria-busy");
    this.stop.hidden = true;
    const whole = answer.method === ATTENTION;
    const [part] = answer.parts;
    fillPicker(this.layer, whole ? part.layers : 0, tr("mean of all"));
    fillPicker(this.head, whole ? part.heads : 0, tr("mean of all"));
    const { lead, nodes } = renderInfluence(run, answer);
    this.say.className = "lk-say lk-lead";
    this.say.replaceChildren(...lead);
    this.found.replaceChildren(...nodes);
  }
}

/**
 * Fill a picker with layers or heads, numbered from 1, and keep the choice.
 * @param {ReturnType<typeof createPicker>} picker
 * @param {number} count
 * @param {string} mean text of the choice of all
 */
function fillPicker({ select, node }, count, mean) {
  node.hidden = count === 0;
  if (select.options.length === count + 1) return;
  const { value } = select;
  const options = Array.from({ length: count }, (_, i) =>
    el("option", { value: i }, String(i + 1)),
  );
  select.replaceChildren(...(count ? [el("option", { value: "" }, mean), ...options] : []));
  if (value && Number(value) < count) select.value = value;
}

/** @type {ViewSpec} */
export const influenceView = {
  title: tr("Influence"),
  tab: tr("Influence"),
  place: "answers",
  empty: tr("After a run, see which earlier words mattered for a token."),
  mount: (root) => new InfluencePanel(root),
};
