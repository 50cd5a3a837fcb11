// Download of transformers' own generate() outputs for a run, with their size shown first.
import { createButton, downloadUrl, el } from "../../../visualizers/shared/dom.mjs";
import { readMessage, said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { formatSize } from "../shell/file_sizes.mjs";
import { askServer } from "../shell/questions.mjs";
import { visitorId } from "../shell/visitor_media.mjs";

const ENDPOINT = "./rich";
/** @type {Record<string, [string, string]>} */
const OUTPUT_CHOICES = {
  output_scores: [tr("Scores"), tr("What the filters left of the logits, at every step")],
  output_logits: [tr("Logits"), tr("Of every step the logits themselves")],
  output_hidden_states: [
    tr("Hidden states"),
    tr("Of every step and layer what the model holds at each position"),
  ],
  output_attentions: [
    tr("Attentions"),
    tr("Of every step, layer and head how much each position looks at every other"),
  ],
};
const RERUNNING = tr("Making the run again with these outputs…");

/** The choice of outputs, their size and the download button. */
export class GenerateOutputs {
  /** @type {Run | null} */
  #run = null;
  #known = "";
  #idle = false;
  #size = new StoppableQuestion();
  #fits = false;
  /** @type {AbortController | null} */
  #going = null;

  /**
   * @param {(run: Run) => object} slim reduces a run to what the server needs
   * @param {(ending: string) => string} name returns the file name with an ending
   */
  constructor(slim, name) {
    this.slim = slim;
    this.name = name;
    this.boxes = Object.entries(OUTPUT_CHOICES).map(([flag, [, hint]], at) =>
      el("input", {
        type: "checkbox",
        name: flag,
        checked: at === 0,
        title: hint,
        onchange: () => this.#fetchSize(),
      }),
    );
    this.go = createButton(tr("Download"), () => this.#downloadFile(), {
      title: tr("The run is made again by transformers and its outputs come as a safetensors file"),
    });
    this.halt = createButton(tr("Stop"), () => this.#going?.abort());
    this.halt.hidden = true;
    this.say = el("span", { class: "ex-size", role: "status" });
    this.nodes = [
      el(
        "fieldset",
        { class: "ex-flags", "aria-label": tr("transformers' outputs") },
        this.boxes.map((box) =>
          el("label", { title: box.title }, box, OUTPUT_CHOICES[box.name][0]),
        ),
      ),
      this.go,
      this.halt,
      this.say,
    ];
    this.#updateControls();
  }

  get #flags() {
    return Object.fromEntries(this.boxes.map((box) => [box.name, box.checked]));
  }

  #updateControls() {
    for (const box of this.boxes) box.disabled = !this.#idle || this.#going !== null;
    this.go.disabled = !this.#idle || !this.#fits || this.#going !== null;
    this.halt.hidden = this.#going === null;
  }

  /**
   * @param {Run} run
   * @param {boolean} idle whether the run has ended
   */
  update(run, idle) {
    const same = run.id === this.#known && idle === this.#idle;
    this.#run = run;
    if (same) return;
    this.forget();
    this.#run = run;
    this.#known = run.id;
    this.#idle = idle;
    this.#updateControls();
    if (idle) this.#fetchSize();
  }

  /** Forget the run and abort its download. */
  forget() {
    this.#going?.abort();
    this.#going = null;
    this.#run = null;
    this.#known = "";
    this.#idle = false;
    this.#fits = false;
    this.#size.forget();
    this.say.textContent = "";
    this.#updateControls();
  }

  // Only the server knows the size of the outputs, and whether the run has them.
  async #fetchSize() {
    const run = this.#run;
    if (!run) return;
    this.#size.forget();
    this.#fits = false;
    this.#updateControls();
    if (!this.boxes.some((box) => box.checked)) {
      this.say.textContent = tr("Choose at least one.");
      return;
    }
    const about = { trace: this.slim(run), flags: this.#flags };
    const answer = await this.#size.ask(() => askServer({ action: "rich_size", ...about }));
    if (!answer) return;
    this.#fits = !answer.error;
    this.say.textContent = answer.error
      ? `⚠ ${said(answer.error)}`
      : tr("About {size}", { size: formatSize(answer.size) });
    this.#updateControls();
  }

  async #downloadFile() {
    const run = this.#run;
    if (!run) return;
    const going = new AbortController();
    this.#going = going;
    this.#updateControls();
    this.say.textContent = RERUNNING;
    const told = await this.#requestFile(run, going.signal);
    if (this.#going !== going) return;
    this.#going = null;
    this.say.textContent = told;
    this.#updateControls();
  }

  /**
   * Fetch the file and return the sentence to show.
   * @param {Run} run
   * @param {AbortSignal} signal
   */
  async #requestFile(run, signal) {
    try {
      const answer = await fetch(new URL(ENDPOINT, document.baseURI), {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Visitor": visitorId() },
        body: JSON.stringify({ trace: this.slim(run), flags: this.#flags }),
        signal,
      });
      if (!answer.ok) return `⚠ ${said((await readMessage(answer)).error)}`;
      const blob = await answer.blob();
      const name = this.name(".safetensors");
      downloadUrl(URL.createObjectURL(blob), name);
      return tr("Saved {name}, {size}.", { name, size: formatSize(blob.size) });
    } catch {
      return signal.aborted ? tr("Stopped.") : `⚠ ${tr("The outputs could not be fetched.")}`;
    }
  }
}
