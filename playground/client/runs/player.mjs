// The player: shows a recorded trace step by step in every view of its strategy, without a model.
import { el } from "../../../visualizers/shared/dom.mjs";
import { parseMessage, said } from "../../../visualizers/shared/server_text.mjs";
import { PlayBar } from "../../../visualizers/stage/play.mjs";
import { PAGE_VIEWS } from "../../../visualizers/stage/views.mjs";
import { registerLink } from "../shell/address.mjs";
import { registerOtherTab } from "../shell/other_tabs.mjs";
import { stages, store } from "../shell/page_state.mjs";
import { getDeclaration } from "../shell/spec.mjs";
import { fetchRecorded } from "./recorded_runs.mjs";

class Player {
  /** @type {Run | null} */
  #run = null;
  // Name of the recorded run requested last; answers for any other are dropped.
  #asked = "";

  /**
   * @param {HTMLElement} root
   * @param {Context["trigger"]} trigger
   */
  constructor(root, trigger) {
    this.trigger = trigger;
    this.title = el("p", { class: "pl-title" });
    this.note = el("p", { class: "dp-status bad", role: "alert", hidden: true });
    this.stage = el("div", { class: "dp-stage" });
    this.bar = new PlayBar((count) => {
      if (this.#run) store.rewind(this.#run, count, "replayed");
    });
    this.shell = el("div", { class: "dp-card pl-shell" }, this.note, this.title, this.bar.node);
    this.shell.hidden = true;
    root.replaceChildren(this.shell, this.stage);
    root.addEventListener("keydown", (event) => this.bar.press(event));
    store.watch({ covered: ({ key, on }) => key === "replay" && this.bar.hold(on) });
    registerOtherTab("replay", this);
    registerLink(root, () => this.#pageAddress());
    const [first] = getDeclaration().gallery;
    if (first) this.#fetchRun(first.name, null, () => !this.#run).catch(() => {});
  }

  #pageAddress() {
    const run = this.#run;
    return run?.entry
      ? `?tab=replay&trace=${run.entry}&step=${(run.selected ?? 0) + 1}`
      : "?tab=replay";
  }

  /**
   * @param {string} name
   * @param {number | null} step from 1
   * @param {() => boolean} wanted
   */
  async #fetchRun(name, step, wanted) {
    const found = await fetchRecorded(name);
    if (!wanted()) return;
    const run = this.#openRun({ ...found, name: found.title });
    run.entry = name;
    store.select(run, (step ?? found.look_at) - 1);
  }

  /**
   * Show the recorded run named by a link or chosen in the gallery.
   * @param {{ recorded: string | null, step: number | null }} what
   */
  async restore({ recorded, step }) {
    if (!recorded) return;
    this.#asked = recorded;
    this.note.hidden = true;
    // Clear the note about a previously loaded file.
    // Empty the paragraphs, never remove them: Gradio owns the node and writes its next text there.
    for (const line of document.querySelectorAll("#replay-note p")) {
      line.replaceChildren();
      line.removeAttribute("class");
    }
    await this.#fetchRun(recorded, step, () => this.#asked === recorded);
    this.bar.node.focus({ preventScroll: true });
  }

  /** @param {string} error */
  refuse(error) {
    this.shell.hidden = false;
    this.note.hidden = false;
    this.note.textContent = said(error);
  }

  /** @param {string} text a message of the server, as JSON */
  receive(text) {
    if (!text) return;
    this.#asked = "";
    this.note.hidden = true;
    this.#openRun(parseMessage(text));
    this.bar.node.focus({ preventScroll: true });
  }

  /** @param {Recorded & { visuals: string[], name: string, form?: any, shows?: string }} found */
  #openRun({ trace, shown, visuals, name, form = null, shows = "" }) {
    const run = store.showTrace("replay", { trace, shown }, "replayed");
    this.#run = Object.assign(run, { form, shows });
    stages.mount(this.stage, { strategy: "replay", visuals, unfolded: PAGE_VIEWS }, this.trigger);
    this.shell.hidden = false;
    this.title.textContent = name;
    this.bar.load(trace.steps.length);
    return run;
  }
}

/**
 * @param {HTMLElement} root
 * @param {Context["trigger"]} trigger
 */
export const mountPlayer = (root, trigger) => new Player(root, trigger);
