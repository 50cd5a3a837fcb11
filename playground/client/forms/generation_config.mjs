// Saved settings of a strategy: as generation_config.json, or in this browser, in a table.
import { createButton, createScroller, el, saveAs } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { store } from "../shell/page_state.mjs";
import { waitUntilFound } from "../shell/polling.mjs";
import { askServer } from "../shell/questions.mjs";
import { getStrategy } from "../shell/spec.mjs";
import { getStrategyTab } from "../shell/strategy_tabs.mjs";
import { openTab } from "../shell/tab_navigation.mjs";
import { deleteSettings, listSettings, saveSettings } from "./saved_settings.mjs";

/** @import { SavedSettings } from "./saved_settings.mjs" */

const MAX_FILE_BYTES = 100000;
const FILE_NAME = "generation_config.json";
const NOTHING_SAVED = tr("Nothing kept yet. Keep two or more to see them side by side.");

/** @param {unknown} value */
const formatValue = (value) => {
  if (value === null) return tr("off");
  return typeof value === "string" ? value : JSON.stringify(value);
};

/** @param {number} count */
function inUseSentence(count) {
  if (!count) return tr("In use: the defaults.");
  return count === 1
    ? tr("In use: 1 parameter other than the default.")
    : tr("In use: {count} parameters other than the default.", { count });
}

/**
 * Fill the tab of another strategy and open it; a line next to its Run button says what was used.
 * @param {any} answer
 * @param {string} sentence
 */
function applyInOtherTab({ strategy, values }, sentence) {
  openTab(strategy);
  waitUntilFound(
    () => getStrategyTab(strategy),
    (tab) => {
      tab.use(values);
      if (!store.busy(strategy)) store.act(strategy, { run: "", phase: "stopped", says: sentence });
    },
  );
}

class SettingsTable {
  #name = el("input", {
    class: "ec-name",
    type: "text",
    maxlength: 40,
    placeholder: tr("Name"),
    "aria-label": tr("Name of these settings"),
  });
  #file = el("input", {
    type: "file",
    accept: ".json,application/json",
    hidden: true,
    onchange: () => {
      const [chosen] = this.#file.files ?? [];
      if (chosen) this.#open(chosen);
    },
  });

  #paste = /** @type {HTMLTextAreaElement} */ (
    el("textarea", {
      class: "ec-paste",
      rows: 2,
      placeholder: "num_beams=4, do_sample=True",
      "aria-label": tr("Settings as Python arguments or JSON"),
    })
  );

  /**
   * @param {HTMLElement} root
   * @param {any} tab
   */
  constructor(root, tab) {
    this.tab = tab;
    this.strategy = tab.strategy.name;
    /** @param {Record<string, unknown>} data */
    this.ask = (data) => askServer({ ...tab.ask(), ...data });
    this.say = el("p", { class: "dp-note ec-status", role: "status" });
    this.table = el("div", { class: "ec-table" });
    this.box = el(
      "details",
      { class: "ec-box" },
      el("summary", {}, tr("Saved settings")),
      ...this.#controls(),
      this.say,
      this.table,
    );
    root.replaceChildren(this.box);
    this.#draw();
  }

  #controls() {
    const save = createButton(tr("Save as file"), () => this.#save(), {
      title: tr("{file} with every parameter", { file: FILE_NAME }),
    });
    const load = createButton(tr("Load a file…"), () => this.#file.click(), {
      title: tr("A {file}", { file: FILE_NAME }),
    });
    return [
      el(
        "div",
        { class: "dp-row" },
        this.#name,
        createButton(tr("Keep"), () => this.#keep()),
      ),
      el("div", { class: "dp-row" }, save, load),
      el(
        "div",
        { class: "dp-row" },
        this.#paste,
        createButton(tr("Use pasted settings"), () => this.#applyText(this.#paste.value)),
      ),
      this.#file,
    ];
  }

  /** @param {string} text */
  #showStatus(text, bad = false) {
    this.say.textContent = (bad ? "⚠ " : "") + said(text);
    this.say.classList.toggle("bad", bad);
  }

  // The settings as text of a generation_config.json, null if they are invalid.
  async #settingsText() {
    const answer = await this.ask({ action: "write" });
    if (answer.error) this.#showStatus(answer.error, true);
    return answer.error ? null : answer;
  }

  async #keep() {
    const answer = await this.#settingsText();
    if (!answer) return;
    const name =
      this.#name.value.trim() || tr("Settings {n}", { n: listSettings(this.strategy).length + 1 });
    const { text, params } = answer;
    const kept = saveSettings(this.strategy, { name, text, params });
    this.#showStatus(kept.said, kept.bad);
    this.#name.value = "";
    this.#draw();
  }

  async #save() {
    const answer = await this.#settingsText();
    if (!answer) return;
    saveAs(FILE_NAME, "application/json", answer.text);
    this.#showStatus(
      tr("Saved {file} for {strategy}.", { file: FILE_NAME, strategy: this.strategy }),
    );
  }

  /** @param {File} chosen */
  async #open(chosen) {
    if (chosen.size > MAX_FILE_BYTES)
      this.#showStatus(
        tr("The file is larger than {limit} bytes.", { limit: MAX_FILE_BYTES }),
        true,
      );
    else await this.#applyText(await chosen.text());
    this.#file.value = "";
  }

  /** @param {string} text */
  async #applyText(text) {
    const answer = await this.ask({ action: "read", text });
    if (answer.error) return this.#showStatus(answer.error, true);
    const leftOut = answer.left_out.map((/** @type {string} */ why) => said(why));
    const sentence = [inUseSentence(Object.keys(answer.params).length), ...leftOut].join(" ");
    if (answer.strategy === this.strategy) {
      this.tab.use(answer.values);
      return this.#showStatus(sentence);
    }
    applyInOtherTab(answer, sentence);
    const { title } = getStrategy(answer.strategy);
    this.#showStatus(tr("These settings choose {title}; its tab has them now.", { title }));
  }

  #draw() {
    const list = listSettings(this.strategy);
    this.table.replaceChildren(
      list.length ? this.#sideBySide(list) : el("p", { class: "dp-note" }, NOTHING_SAVED),
    );
  }

  /** @param {SavedSettings[]} list */
  #sideBySide(list) {
    const names = [...new Set(list.flatMap((c) => Object.keys(c.params)))];
    /** @param {string} name */
    const column = (name) => el("th", { scope: "col" }, name);
    /** @param {string} name */
    const rowHead = (name) => el("th", { scope: "row" }, name);
    /**
     * @param {Record<string, any>} params
     * @param {string} name
     */
    const cell = (params, name) =>
      name in params
        ? el("td", {}, formatValue(params[name]))
        : el("td", { class: "ec-default" }, tr("default"));
    /** @param {string} name */
    const row = (name) =>
      el(
        "tr",
        {},
        rowHead(name),
        list.map((c) => cell(c.params, name)),
      );
    const last = el(
      "tr",
      {},
      rowHead(""),
      list.map((c) => this.#actionCell(c)),
    );
    const head = el("tr", {}, column(tr("Parameter")), ...list.map((c) => column(c.name)));
    return createScroller(
      tr("Kept settings side by side"),
      el(
        "table",
        { class: "dp-table" },
        el("thead", {}, head),
        el("tbody", {}, ...names.map(row), last),
      ),
    );
  }

  /** @param {SavedSettings} settings */
  #actionCell({ name, text }) {
    const remove = () => {
      deleteSettings(this.strategy, name);
      this.#draw();
    };
    const use = createButton(tr("Use"), () => this.#applyText(text), {
      "aria-label": tr("Use {name}", { name }),
    });
    const gone = createButton("×", remove, { "aria-label": tr("Remove {name}", { name }) });
    return el("td", {}, el("div", { class: "ec-acts" }, use, gone));
  }
}

/**
 * @param {HTMLElement} root
 * @param {any} tab
 */
export const mountSavedSettings = (root, tab) => new SettingsTable(root, tab);
