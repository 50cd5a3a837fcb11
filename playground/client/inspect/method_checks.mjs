// The conformance checks of a custom method; each result appears as soon as it is known.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { askServer } from "../shell/questions.mjs";

/** @typedef {{ what: string, result: string, told: string }} Check */

/** @type {Record<string, string>} */
const RESULTS = { passed: tr("✓ passed"), failed: tr("✗ failed"), noted: tr("· noted") };

export class MethodChecks {
  #question = new StoppableQuestion();

  /**
   * @param {string} name
   * @param {() => any} given returns the arguments for the check
   * @param {() => Promise<boolean>} before called first; the check is skipped if it returns false
   */
  constructor(name, given, before) {
    this.name = name;
    this.given = given;
    this.before = before;
    this.go = createButton(tr("Check"), () => this.check(), {
      title: tr("Reads it, and runs it four times on the small model, shut in"),
    });
    this.halt = createButton(tr("Stop the check"), () => this.#question.stop());
    this.halt.hidden = true;
    this.say = el("p", { class: "dp-note", role: "status" });
    this.list = el("ul", { class: "me-checks", "aria-label": tr("What the check found") });
    this.node = el("div", {}, this.say, this.list);
  }

  async check() {
    if (this.#question.isOpen || !(await this.before())) return;
    this.list.replaceChildren();
    this.#busy(true);
    const sentence = await this.#question.ask((press) => this.#followCheck(press));
    this.say.textContent = sentence;
    this.#busy(false);
  }

  /**
   * Show the results as they come; return the sentence about all of them.
   * @param {string} press
   */
  async #followCheck(press) {
    /** @type {Check[]} */
    const found = [];
    for (;;) {
      this.say.textContent = tr("Checking: {n} looked at; it takes up to a minute…", {
        n: found.length,
      });
      const asked = { action: "method_check", name: this.name, arguments: this.given() };
      const answer = await askServer({ ...asked, press, known: found.length });
      const { checks = [], over, error } = answer;
      found.push(...checks);
      this.list.append(...checks.map(checkRow));
      if (error) return said(error);
      if (over) return verdictSentence(found);
    }
  }

  /** @param {boolean} on */
  #busy(on) {
    this.go.disabled = on;
    this.halt.hidden = !on;
  }

  stop() {
    this.#question.stop();
  }
}

/** @param {Check} check */
const checkRow = ({ what, result, told }) =>
  el(
    "li",
    { class: `me-check ${result}` },
    el("span", { class: "me-result" }, RESULTS[result]),
    el("b", {}, said(what)),
    el("span", {}, said(told)),
  );

/** @param {Check[]} found */
function verdictSentence(found) {
  const failed = found.filter(({ result }) => result === "failed").length;
  if (!failed) return tr("It does what others expect of a method.");
  return failed === 1 ? tr("One check failed.") : tr("{n} checks failed.", { n: failed });
}
