// The export panel of a run: data files, code with a check, and figures.
import { createButton, downloadUrl, el, saveAs } from "../../../visualizers/shared/dom.mjs";
import { toTraceJson } from "../../../visualizers/shared/record.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { formatFixed } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { saveTrace } from "../../../visualizers/stage/download.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { formatSize } from "../shell/file_sizes.mjs";
import { stages } from "../shell/page_state.mjs";
import { askServer } from "../shell/questions.mjs";
import { csv } from "../shell/steps_csv.mjs";
import { createZip } from "../shell/zip.mjs";
import { codeFilesOf, Refusal, throwRefusal, withoutSteps } from "./code_files.mjs";
import { labelledRow } from "./export_row.mjs";
import {
  drawFigures,
  figureFileName,
  figurePng,
  figureSvg,
  figureTitle,
  listFigures,
  NO_PICTURE,
} from "./figures.mjs";
import { GenerateOutputs } from "./generate_outputs.mjs";
import { buildSavedPage } from "./saved_page.mjs";

/** @import { CodeFiles } from "./code_files.mjs" */

// Charts appear shortly after the run ends, and curves are drawn only once they have a size.
const DRAW_DELAY_MS = 300;
const LIST_DELAY_MS = 300;
const NO_CODE = tr("The code could not be fetched.");

// Form of the code -> its label and its file name.
/** @type {Record<string, [string, string]>} */
const CODE_FORMS = {
  generate: ["model.generate()", "run.py"],
  pipeline: ['pipeline("text-generation")', "run_pipeline.py"],
};

class ExportPanel {
  /** @type {Run | null} */
  #shownRun = null;
  #known = "";
  #listed = "";
  /** @type {{ run: string, answer: Promise<CodeFiles> } | null} */
  #files = null;
  /** @type {HTMLButtonElement[]} */
  #buttons = [];
  #verification = new StoppableQuestion();

  check = this.#button(
    tr("Verify"),
    () => this.#verify(),
    tr("Run the exported code in a fresh process and compare the tokens"),
  );
  halt = createButton(tr("Stop the check"), () => this.#verification.stop());
  form = el(
    "select",
    {
      class: "ex-form",
      "aria-label": tr("Form of the code"),
      onchange: () => this.#changeForm(),
    },
    Object.entries(CODE_FORMS).map(([value, [label]]) => el("option", { value }, label)),
  );

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.say = el("p", { class: "dp-note ex-status", role: "status" });
    this.badge = el("span", { class: "ex-badge", role: "status", hidden: true });
    this.chooser = el("select", { class: "ex-select", "aria-label": tr("Figure") });
    this.code = el("pre", { class: "ex-code", tabindex: 0, "aria-label": tr("Code") });
    const opened = () => {
      if (this.shown.open && this.#shownRun) this.#showCode();
    };
    this.halt.hidden = true;
    /** @type {HTMLDetailsElement} */
    this.shown = el(
      "details",
      { class: "ex-details", ontoggle: opened },
      el("summary", {}, tr("Show the code")),
      this.code,
    );
    this.rich = new GenerateOutputs(withoutSteps, (ending) => this.#name(ending));
    const outputs = labelledRow(tr("transformers' outputs"), this.rich.nodes);
    const rows = [this.#dataRow(), this.#codeRow(), outputs, this.#figureRow()];
    root.append(...rows, this.say, this.shown);
    this.chooser.addEventListener("focus", () => this.#list());
  }

  // The buttons need a run, and are off without one.
  get #run() {
    return this.#shownRun ?? throwRefusal(tr("There is no figure to save."));
  }

  /**
   * Create a button that shows the reason if its action fails.
   * @param {string} label
   * @param {() => unknown} act
   * @param {string} [hint]
   */
  #button(label, act, hint) {
    const guarded = async () => {
      this.say.textContent = "";
      try {
        await act();
      } catch (error) {
        this.say.textContent = `⚠ ${error instanceof Refusal ? error.message : NO_PICTURE}`;
      }
    };
    const made = createButton(label, guarded, { title: hint });
    this.#buttons.push(made);
    return made;
  }

  #dataRow() {
    const rows = () => saveAs(this.#name(".csv"), "text/csv", csv(this.#run));
    const page = async () => {
      this.#saveBlob(this.#name(".html"), new Blob([await this.#page()], { type: "text/html" }));
    };
    return labelledRow(
      tr("Data"),
      this.#button(
        tr("Trace (.json)"),
        () => saveTrace(this.#run),
        tr("Everything that was recorded; opens again here"),
      ),
      this.#button(tr("Steps (.csv)"), rows, tr("One row a step, for a spreadsheet")),
      this.#button(
        tr("Page (.html)"),
        page,
        tr(
          "All pictures of this run, still alive, with a player, in one file without a server: under 1 MB, 5 MB with a map of layers",
        ),
      ),
    );
  }

  #codeRow() {
    /**
     * @param {string} ending
     * @param {string} type
     * @param {(code: CodeFiles) => string} contentOf
     */
    const save = (ending, type, contentOf) => async () =>
      saveAs(this.#name(ending), type, contentOf(await this.#codeFiles()));
    const script = save(".py", "text/x-python", ({ files }) => files[this.#script]);
    const notebook = save(".ipynb", "application/x-ipynb+json", ({ files }) => files["run.ipynb"]);
    const archive = async () =>
      this.#saveBlob(this.#name(".zip"), await createZip(await this.#archiveFiles()));
    return labelledRow(
      tr("Code"),
      this.form,
      this.#button(tr("Script (.py)"), script),
      this.#button(tr("Notebook (.ipynb)"), notebook),
      this.#button(
        tr("All files (.zip)"),
        archive,
        tr(
          "Script, notebook, the folder with the loop where one is needed, settings, trace, table, page and pictures",
        ),
      ),
      this.check,
      this.halt,
      this.badge,
    );
  }

  #figureRow() {
    const svg = () =>
      this.#withPanelsOpen(async () => {
        const card = this.#figure();
        saveAs(`${this.#slug(card)}.svg`, "image/svg+xml", (await figureSvg(card)).text);
      });
    const png = () =>
      this.#withPanelsOpen(async () => {
        const card = this.#figure();
        saveAs(`${this.#slug(card)}.png`, "image/png", await figurePng(card));
      });
    return labelledRow(
      tr("Figures"),
      this.chooser,
      this.#button("SVG", svg),
      this.#button("PNG", png),
    );
  }

  /**
   * Save a file and show its size.
   * @param {string} name
   * @param {Blob} blob
   */
  #saveBlob(name, blob) {
    downloadUrl(URL.createObjectURL(blob), name);
    this.say.textContent = tr("Saved {name}, {size}.", { name, size: formatSize(blob.size) });
  }

  #page() {
    return buildSavedPage(this.#run, this.#visuals());
  }

  // Path in the archive -> content, for everything that can be exported.
  async #archiveFiles() {
    const run = this.#run;
    this.say.textContent = tr("Packing…");
    const { files } = await this.#codeFiles();
    /** @type {Record<string, string | Uint8Array<ArrayBuffer>>} */
    const packed = {
      ...files,
      [this.#name(".json")]: toTraceJson(run),
      [this.#name(".csv")]: csv(run),
      [this.#name(".html")]: await this.#page(),
    };
    const nameOf = (/** @type {Element} */ card) => `figures/${this.#slug(card)}`;
    await this.#withPanelsOpen(() => drawFigures(this.#stage, nameOf, packed));
    return packed;
  }

  // Open all panels, because they draw nothing while closed; the result closes them again.
  #openPanels() {
    const entry = this.#stageEntry;
    return entry ? stages.unfold(entry) : () => {};
  }

  /**
   * @param {() => Promise<void>} act
   */
  async #withPanelsOpen(act) {
    const close = this.#openPanels();
    await new Promise((drawn) => setTimeout(drawn, DRAW_DELAY_MS));
    try {
      await act();
    } finally {
      close();
    }
  }

  /** @param {string} ending */
  #name(ending) {
    return `${this.#run.strategy}-seed${this.#run.seed}${ending}`;
  }

  /** @returns {HTMLElement} */
  get #stage() {
    return this.root.closest(".dp-stage") ?? this.root;
  }

  get #stageEntry() {
    return stages.list.find((s) => s.root === this.#stage);
  }

  #visuals() {
    return this.#stageEntry?.visuals ?? [];
  }

  #figure() {
    const found = listFigures(this.#stage)[this.chooser.selectedIndex];
    return found || throwRefusal(tr("There is no figure to save."));
  }

  /** @param {Element} card */
  #slug(card) {
    return this.#name(`-${figureFileName(card)}`);
  }

  // One request for all who need the files: the server drops a question once the page asks a newer one.
  #codeFiles() {
    const run = this.#run;
    if (this.#files?.run === run.id) return this.#files.answer;
    const answer = codeFilesOf(run);
    this.#files = { run: run.id, answer };
    answer.catch(() => {
      this.#files = null;
    });
    return answer;
  }

  get #script() {
    return CODE_FORMS[this.form.value][1];
  }

  // Switches the form of the code, and back if this run has no such form.
  async #changeForm() {
    this.badge.hidden = true;
    this.say.textContent = "";
    if (this.form.value === "pipeline" && this.#shownRun) {
      try {
        const { no_pipeline: reason } = await this.#codeFiles();
        if (reason) throwRefusal(said(reason));
      } catch (error) {
        this.form.value = "generate";
        const words = error instanceof Refusal ? error.message : NO_CODE;
        this.say.textContent = `⚠ ${words}`;
      }
    }
    if (this.shown.open && this.#shownRun) this.#showCode();
  }

  async #showCode() {
    try {
      this.code.textContent = (await this.#codeFiles()).files[this.#script];
    } catch (error) {
      this.code.textContent = error instanceof Refusal ? error.message : NO_CODE;
    }
  }

  async #verify() {
    const asked = this.#run;
    this.check.disabled = true;
    this.form.disabled = true;
    this.halt.hidden = false;
    this.#mark("busy", tr("Running the code in a fresh process…"));
    const form = this.form.value;
    const trace = withoutSteps(asked);
    const answer = await this.#verification.ask((press) =>
      askServer({ action: "verify", trace, press, form }),
    );
    this.check.disabled = false;
    this.form.disabled = false;
    this.halt.hidden = true;
    if (asked !== this.#shownRun || !answer) return;
    if (answer.error)
      return this.#mark("bad", tr("Not checked: {why}", { why: said(answer.error) }));
    const verdict = answer.equal ? tr("✓ Verified. ") : tr("✗ Not the same. ");
    const seconds = formatFixed(answer.seconds, 1);
    const took = tr(" It took {seconds} s in a fresh process.", { seconds });
    this.#mark(answer.equal ? "good" : "bad", verdict + said(answer.message) + took);
  }

  /**
   * @param {string} kind
   * @param {string} text
   */
  #mark(kind, text) {
    this.badge.className = `ex-badge ${kind}`;
    this.badge.textContent = text;
    this.badge.hidden = false;
  }

  #list() {
    const close = this.#openPanels();
    const names = listFigures(this.#stage).map(figureTitle);
    close();
    const at = Math.max(0, this.chooser.selectedIndex);
    if (names.join() === [...this.chooser.options].map((o) => o.text).join()) return;
    this.chooser.replaceChildren(...names.map((text) => el("option", {}, text)));
    this.chooser.selectedIndex = Math.min(at, names.length - 1);
  }

  /** @param {Run} run */
  update(run) {
    if (run.id !== this.#known) this.#forget(run);
    this.#shownRun = run;
    const idle = run.status === "running" || run.status === "failed";
    const checking = this.badge.classList.contains("busy") && !this.badge.hidden;
    for (const b of this.#buttons) b.disabled = idle || (b === this.check && checking);
    this.rich.update(run, !idle);
    // Listing draws all panels, so it is not repeated for every selected step.
    if (idle || this.#listed === run.id) return;
    this.#listed = run.id;
    setTimeout(() => this.#list(), LIST_DELAY_MS);
  }

  /** @param {Run} run */
  #forget(run) {
    this.#known = run.id;
    this.#files = null;
    this.form.value = "generate";
    this.badge.hidden = true;
    this.say.textContent = "";
    this.code.textContent = "";
    this.shown.open = false;
  }

  select() {}

  clear() {
    this.#shownRun = null;
    this.rich.forget();
  }
}

/** @type {ViewSpec} */
export const exportView = {
  title: tr("Export"),
  whole: true,
  place: "drawer",
  empty: tr(
    "After a run: its data, the code that makes it again with transformers alone, and its figures.",
  ),
  mount: (root) => new ExportPanel(root),
};
