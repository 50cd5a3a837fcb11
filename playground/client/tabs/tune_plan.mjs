// The plan of a table: prompts, settings as chips, seeds, and what the answers are checked for.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { createModelChoice } from "../forms/model_picker.mjs";
import { createStrategyForm } from "../forms/strategy_form.mjs";
import { getDeclaration } from "../shell/spec.mjs";
import { NARROW } from "../shell/tab_layout.mjs";
import { columnName, expandGrid } from "./tune_settings.mjs";

/** @typedef {import("./tune_settings.mjs").TuneColumn} TuneColumn */
/** @typedef {{ prompts: string[] | string, columns: TuneColumn[], seeds: number, [rest: string]: any }} TuneForm */

const GRID_HINT = "temperature = 0.5, 0.7, 1.0";
const CHECKS = ["pattern", "schema", "match", "base"];

export class TunePlan {
  /** @type {TuneColumn[]} */
  #columns = [];

  /**
   * @param {TuneForm} start
   * @param {() => void} changed
   */
  constructor(start, changed) {
    this.summary = el("summary", {});
    this.changed = () => {
      this.#count();
      changed();
    };
    this.prompts = el("textarea", { id: "tune-prompts", rows: 4, spellcheck: false });
    this.seeds = el("input", { type: "number", min: 1, max: 10, value: start.seeds });
    this.speed = el("input", { type: "checkbox" });
    this.pattern = el("input", { type: "text" });
    this.schema = el("textarea", { rows: 3, spellcheck: false });
    this.match = el(
      "select",
      {},
      el("option", { value: "contains" }, tr("contains it")),
      el("option", { value: "exact" }, tr("equals it")),
      el("option", { value: "regex" }, tr("fits it as a pattern")),
    );
    this.model = createModelChoice("tune-model", { refusal: "", drawer: "" });
    this.model.offer([{ name: "", title: tr("each strategy’s own") }, ...listTargets()]);
    this.base = createModels(tr("the model that writes"));
    this.chips = el("div", { class: "tn-chips" });
    this.adding = this.#createAdding();
    this.box = this.#createBox();
    this.box.addEventListener("input", () => this.changed());
    this.show(start);
  }

  /** Return the form as the server reads it. */
  ask() {
    /** @type {Record<string, any>} */
    const checks = {};
    for (const name of CHECKS) checks[name] = this.#field(name).value;
    return {
      prompts: this.prompts.value,
      columns: this.#columns.map((one) => ({ ...one, name: columnName(one, this.#columns) })),
      seeds: Number(this.seeds.value),
      model: this.model.value,
      speed: this.speed.checked,
      ...checks,
    };
  }

  /** @param {TuneForm} form */
  show(form) {
    const { prompts } = form;
    this.prompts.value = Array.isArray(prompts) ? prompts.join("\n") : String(prompts ?? "");
    this.#columns = [...form.columns];
    this.seeds.value = String(form.seeds);
    this.model.value = form.model ?? "";
    this.speed.checked = form.speed === true;
    for (const name of CHECKS) this.#field(name).value = form[name] || this.#field(name).value;
    this.#drawChips();
  }

  /** @param {string} name */
  #field(name) {
    const fields = { pattern: this.pattern, schema: this.schema, match: this.match };
    return name in fields ? fields[/** @type {keyof typeof fields} */ (name)] : this.base;
  }

  #drawChips() {
    const chips = this.#columns.map((column, place) => {
      const name = columnName(column, this.#columns);
      return createButton(
        [name, el("span", { "aria-hidden": "true" }, " ✕")],
        () => this.#drop(place),
        {
          class: "tn-chip",
          "aria-label": tr("Remove {name}", { name }),
          title: tr("Remove {name}", { name }),
        },
      );
    });
    this.chips.replaceChildren(...chips, this.adding);
    this.changed();
  }

  /** @param {number} place */
  #drop(place) {
    this.#columns.splice(place, 1);
    this.#drawChips();
    const left = this.chips.querySelectorAll("button")[Math.min(place, this.#columns.length - 1)];
    left?.focus();
  }

  #createAdding() {
    const form = createStrategyForm(tr("a setting"), { strategy: "sampling" }, () => {});
    const grid = el("textarea", { rows: 2, placeholder: GRID_HINT, spellcheck: false });
    const add = createButton(
      tr("Add setting"),
      () => {
        const { strategy, params } = form.changedForm();
        this.#columns.push(...expandGrid({ strategy, values: params }, grid.value));
        box.open = false;
        this.#drawChips();
        box.querySelector("summary")?.focus();
      },
      { class: "dp-btn f-go" },
    );
    const box = el(
      "details",
      { class: "tn-add" },
      el("summary", { class: "tn-chip" }, tr("+ Add")),
      el(
        "div",
        { class: "tn-adding" },
        form.box,
        el("label", {}, tr("Several values of a setting"), grid),
        add,
      ),
    );
    // What is not added yet changes no plan.
    box.addEventListener("input", (event) => event.stopPropagation());
    return box;
  }

  #createBox() {
    const file = el("input", { type: "file", accept: ".txt,.jsonl,text/plain" });
    file.addEventListener("change", async () => {
      const [chosen] = file.files ?? [];
      if (!chosen) return;
      this.prompts.value = await chosen.text();
      this.changed();
    });
    const settings = el("span", { id: "tune-settings" }, tr("Settings"));
    this.chips.setAttribute("role", "group");
    this.chips.setAttribute("aria-labelledby", "tune-settings");
    const plan = el(
      "div",
      { class: "tn-plan" },
      el("label", { for: "tune-prompts" }, tr("Prompts, one a line")),
      this.prompts,
      settings,
      this.chips,
      el("span", {}),
      el(
        "div",
        { class: "tn-line" },
        el("label", {}, tr("Seeds of each setting"), this.seeds),
        this.model.box,
        el(
          "details",
          { class: "tn-more" },
          el("summary", {}, tr("Further measures")),
          el("label", {}, tr("Pattern that an answer has (regular expression)"), this.pattern),
          el("label", {}, tr("JSON schema that an answer satisfies"), this.schema),
          el("label", {}, tr("A right answer"), this.match),
          el("label", {}, tr("Perplexity is judged by"), this.base),
          el(
            "label",
            { class: "tn-check" },
            this.speed,
            tr("Measure speed: one run after another"),
          ),
          el("label", {}, tr("Prompts from a file (text or JSONL)"), file),
        ),
      ),
    );
    // On a phone the table comes first, and the plan is one line until it is opened.
    return el("details", { class: "tn-fold", open: !NARROW.matches }, this.summary, plan);
  }

  #count() {
    const prompts = this.prompts.value.split("\n").filter((line) => line.trim()).length;
    this.summary.textContent = tr("{prompts} prompts · {settings} settings · {seeds} seeds", {
      prompts,
      settings: this.#columns.length,
      seeds: this.seeds.value,
    });
  }
}

/** @param {string} first what the empty choice says */
function createModels(first) {
  const options = listTargets().map(({ name, title }) => el("option", { value: name }, title));
  return el("select", {}, el("option", { value: "" }, first), options);
}

const listTargets = () => getDeclaration().models.filter((m) => m.role === "target");
