// A button that installs a model of the catalogue on the server's machine, and shows how far it is.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { pageLanguage, tr } from "../../../visualizers/shared/tr.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { askServer } from "../shell/questions.mjs";
import { getDeclaration, updateModels } from "../shell/spec.mjs";

const ASK_INTERVAL_MS = 500;

/** @param {number} bytes */
const megabytes = (bytes) => Math.round(bytes / 1e6);

export class ModelInstall {
  #question = new StoppableQuestion();

  /** @param {(name: string) => void} chosen called with the name of a model that was installed */
  constructor(chosen) {
    this.chosen = chosen;
    this.offers = el("div", { class: "dp-row" });
    this.halt = createButton(tr("Stop the download"), () => this.#question.stop());
    this.bar = el("progress", { "aria-label": tr("Download") });
    this.say = el("p", { class: "f-help", role: "status" });
    const progress = el("div", { class: "dp-row" }, this.bar, this.halt);
    this.node = el("div", { class: "f-install" }, this.offers, progress, this.say);
    this.show();
  }

  /** Offer what can be installed now. */
  show() {
    const { installable } = getDeclaration();
    this.offers.replaceChildren(
      ...installable.map((/** @type {any} */ { name, title, bytes }) =>
        createButton(
          tr("Get {title} ({n} MB)", { title, n: megabytes(bytes) }),
          () => this.#install(name),
          { title: tr("From the hub it is larger, as its weights are not rounded there.") },
        ),
      ),
    );
    this.#busy(false);
  }

  /** @param {string} name */
  async #install(name) {
    this.#busy(true);
    this.say.textContent = tr("Asking for it…");
    const answer = await this.#question.ask((press) => this.#follow(name, press));
    this.#busy(false);
    if (!answer) return;
    this.say.textContent = answer.error ? said(answer.error) : tr("It is here. Press Run.");
    if (answer.error) return;
    updateModels(answer);
    this.chosen(name);
  }

  /**
   * Show the progress until the answer comes, and return it.
   * @param {string} name
   * @param {string} press
   */
  async #follow(name, press) {
    let over = false;
    const asked = { action: "install_model", name, press, language: pageLanguage() };
    const answer = askServer(asked).finally(() => {
      over = true;
    });
    while (!over) {
      const pause = new Promise((done) => setTimeout(done, ASK_INTERVAL_MS));
      await Promise.race([answer, pause]);
      if (!over) this.#showProgress(await askServer({ action: "install_progress", name }));
    }
    return answer;
  }

  /** @param {{ stage?: string, done?: number, total?: number }} progress */
  #showProgress({ stage, done = 0, total = 0 }) {
    if (!stage || !this.#question.isOpen) return;
    if (total) Object.assign(this.bar, { value: done, max: total });
    else this.bar.removeAttribute("value");
    const [n, all] = [megabytes(done), megabytes(total)];
    this.say.textContent = total
      ? tr("{stage}: {n} of {all} MB", { stage: said(stage), n, all })
      : said(stage);
  }

  /** @param {boolean} on */
  #busy(on) {
    this.offers.hidden = on || !this.offers.childElementCount;
    this.bar.hidden = this.halt.hidden = !on;
    this.bar.removeAttribute("value");
  }
}
