// The Influence view of a lesson's run. Shows only recorded answers; no model is asked.
import { button, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { METHODS } from "../inspect/influence.mjs";
import { drawn } from "../inspect/influence_parts.mjs";

const ELSEWHERE = tr("This step was not looked into.");

/** Return the title of a recorded question: method, layer and head. */
function titleOf({ method, layer, head }) {
  const { [method]: title } = Object.fromEntries(METHODS);
  const parts = [
    title,
    layer && tr("layer {layer}", { layer }),
    head && tr("head {head}", { head }),
  ];
  return parts.filter(Boolean).join(", ");
}

class LookedKept {
  #key = "";

  constructor(root) {
    const label = tr("How it was asked");
    this.row = el("div", { class: "dp-row lk-methods", role: "group", "aria-label": label });
    this.lead = el("p", { class: "lk-say lk-lead" });
    this.found = el("div", { class: "lk-found" });
    root.classList.add("lk-root");
    root.append(this.row, this.lead, this.found);
  }

  /** @param {Run} run */
  update(run) {
    if (run.steps[run.selected ?? -1]) this.select(run, run.selected);
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
      button(titleOf(one.look), () => this.#show(run, one, buttons[looks.indexOf(one)])),
    );
    this.row.replaceChildren(...buttons);
    this.row.hidden = looks.length < 2;
    if (looks.length) return this.#show(run, looks[0], buttons[0]);
    this.lead.textContent = ELSEWHERE;
    this.found.replaceChildren();
  }

  #show(run, { answer }, chosen) {
    for (const one of this.row.querySelectorAll("button"))
      one.setAttribute("aria-pressed", String(one === chosen));
    const { lead, nodes } = drawn(run, answer);
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
export const lookedKept = {
  title: tr("What it looked at"),
  picture: true,
  mount: (root) => new LookedKept(root),
};
