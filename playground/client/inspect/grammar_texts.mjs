// The view of a grammar on the page: a button asks the server what the grammar made of the model's choice.
import { grammar } from "../../../visualizers/grammar/view.mjs";
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { toTrace } from "../../../visualizers/shared/record.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { store } from "../shell/page_state.mjs";
import { askAboutRun, NO_ENDING } from "./step_questions.mjs";

const HINT = tr(
  "A grammar removes tokens one by one. Would the model choose the same text among all allowed ones?",
);
const READING = tr("The model reads the allowed texts. This can take a minute.");
const STOPPED = tr("Stopped.");

class GrammarComparison {
  /** @type {Run | null} */
  #run = null;
  #question = new StoppableQuestion({ latestOnly: true });

  constructor() {
    this.go = createButton(tr("Compare with whole texts"), () => this.#ask(), {
      class: "dp-btn gt-go",
    });
    this.stop = createButton(tr("Stop"), () => this.#stop(), { class: "dp-btn gt-stop" });
    this.say = el("p", { class: "dp-note gt-say", role: "status" });
    this.node = el("div", { class: "gt-ask" }, this.say, this.go, this.stop);
  }

  /** @param {Run} run */
  update(run) {
    const same = this.#run === run;
    this.#run = run;
    this.node.hidden = run.status === "running" || Boolean(run.grammar_texts);
    if (same) return;
    this.#cancel();
    this.#show(HINT, false);
  }

  clear() {
    this.#cancel();
    this.#run = null;
  }

  // Nobody waits for the answer any more, so the server need not compute it.
  #cancel() {
    this.#question.stop();
    this.#question.forget();
  }

  #stop() {
    this.#cancel();
    this.#show(STOPPED, false);
    this.go.focus();
  }

  /**
   * @param {string} sentence
   * @param {boolean} busy
   */
  #show(sentence, busy, kind = "") {
    this.say.className = `dp-note gt-say ${kind}`;
    this.say.textContent = sentence;
    this.go.hidden = busy;
    this.stop.hidden = !busy;
    this.node.toggleAttribute("aria-busy", busy);
  }

  async #ask() {
    const run = this.#run;
    if (!run) return;
    this.#show(READING, true);
    this.stop.focus();
    const bare = () => ({ ...toTrace(run), steps: [], ...NO_ENDING });
    const answer = await this.#question.ask((press) =>
      askAboutRun(run, { action: "grammar_texts", press }, bare),
    );
    if (!answer || this.#run !== run) return;
    if (!answer.found) {
      this.#show(`⚠ ${said(answer.error)}`, false, "bad");
      return this.go.focus();
    }
    run.grammar_texts = answer.found;
    store.tell("changed", run);
  }
}

/** @type {ViewSpec} */
export const grammarView = {
  ...grammar,
  mount(root, ctx) {
    const view = grammar.mount(root, ctx);
    const comparison = new GrammarComparison();
    root.append(comparison.node);
    /** @type {View} */
    const both = {
      update(run, from) {
        view.update(run, from);
        comparison.update(run);
      },
      select: (run, index) => view.select(run, index),
      clear() {
        view.clear();
        comparison.clear();
      },
    };
    return both;
  },
};
