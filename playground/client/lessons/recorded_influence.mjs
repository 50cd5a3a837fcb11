// The Influence view of a lesson's run. Shows only recorded answers; no model is asked.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { INFLUENCE_METHODS } from "../inspect/influence.mjs";
import { renderInfluence } from "../inspect/influence_parts.mjs";

const NOT_RECORDED = tr("This step was not looked into.");

/**
 * Return the title of a recorded question: method, layer and head.
 * @param {{ method: string, layer?: number | null, head?: number | null }} look
 */
function questionTitle({ method, layer, head }) {
  const { [method]: title } = Object.fromEntries(INFLUENCE_METHODS);
  const parts = [
    title,
    layer && tr("layer {layer}", { layer }),
    head && tr("head {head}", { head }),
  ];
  return parts.filter(Boolean).join(", ");
}

class RecordedInfluence {
  #key = "";

  /** @param {HTMLElement} root */
  constructor(root) {
    const label = tr("How it was asked");
    this.row = el("div", { class: "dp-row lk-methods", role: "group", "aria-label": label });
    this.lead = el("p", { class: "lk-say lk-lead" });
    this.found = el("div", { class: "lk-found" });
    root.classList.add("inf-root");
    root.append(this.row, this.lead, this.found);
  }

  /** @param {Run} run */
  update(run) {
    const at = run.selected ?? -1;
    if (run.steps[at]) this.select(run, at);
  }

  /**
   * @param {Run} run
   * @param {number} index
   */
  select(run, index) {
    const key = `${run.id}:${index}`;
    if (key === this.#key) return;
    this.#key = key;
    const looks = run.source?.looked?.filter(({ look }) => look.step === index + 1) ?? [];
    const buttons = looks.map((one) =>
      createButton(questionTitle(one.look), () =>
        this.#show(run, one, buttons[looks.indexOf(one)]),
      ),
    );
    this.row.replaceChildren(...buttons);
    this.row.hidden = looks.length < 2;
    if (looks.length) return this.#show(run, looks[0], buttons[0]);
    this.lead.textContent = NOT_RECORDED;
    this.found.replaceChildren();
  }

  /**
   * @param {Run} run
   * @param {{ answer: any }} look
   * @param {HTMLElement} chosen its button
   */
  #show(run, { answer }, chosen) {
    for (const one of this.row.querySelectorAll("button"))
      one.setAttribute("aria-pressed", String(one === chosen));
    const { lead, nodes } = renderInfluence(run, answer);
    this.lead.replaceChildren(...lead);
    this.found.replaceChildren(...nodes);
  }

  clear() {
    this.#key = "";
    this.row.replaceChildren();
    this.lead.replaceChildren();
    this.found.replaceChildren();
  }
}

/** @type {ViewSpec} */
export const recordedInfluence = {
  title: tr("Influence"),
  picture: true,
  mount: (root) => new RecordedInfluence(root),
};
