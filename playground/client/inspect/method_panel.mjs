// The method panel: shows a method's code and source before it may run, with the button that trusts
// it. The visitor's own methods are edited here.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { findFileLine } from "../forms/method_navigation.mjs";
import { fetchMethodInfo, fetchMethodList, trustMethod, updateMethod } from "../forms/methods.mjs";
import { CodeEditor } from "../shell/code_editor.mjs";
import { FileTabs } from "../shell/file_tabs.mjs";
import { MethodEditor } from "./method_editor.mjs";
import { NewMethodForm } from "./new_method.mjs";

/** @typedef {import("../forms/methods.mjs").Method} Method */

const ASKING = tr("Looking…");
const CONFIRMED = tr("Its code is confirmed; Run uses it.");
const CHANGED = tr(
  "The code has changed since it was shown. This is the new code; check it again.",
);
/** @type {Record<string, string>} */
const SOURCES = {
  shipped: tr("Built in"),
  hub: tr("From the hub"),
  folder: tr("A folder of this machine"),
};
const MADE_HERE = tr("A method of your own");
/** @type {Record<string, string>} */
const BADGES = {
  "comes-along": tr("built in"),
  confirmed: tr("confirmed"),
  "not-confirmed": tr("not confirmed"),
  yours: tr("yours"),
};

/** @param {Method} found */
const trustBadge = ({ source, trusted }) =>
  trusted ? (source === "shipped" ? "comes-along" : "confirmed") : "not-confirmed";

/** @param {Method} found */
function factsLine({ source, revision, sha256 }) {
  const commit = revision ? tr("commit {revision}", { revision }) : "";
  const parts = [SOURCES[source], commit].filter(Boolean).join(", ");
  return el("p", { class: "me-facts" }, `${parts} · sha256 `, el("code", {}, sha256));
}

class MethodReader {
  /**
   * @param {Method} found
   * @param {string} shut one line about the sandbox's permissions
   * @param {(told: Method) => void} trusted called with the method's new details
   */
  constructor(found, shut, trusted) {
    this.found = found;
    this.editor = new CodeEditor();
    this.files = new FileTabs(Object.keys(found.files), (path) => this.show(path));
    this.say = el("p", { class: "dp-status", role: "status" });
    this.node = el(
      "div",
      {},
      factsLine(found),
      el("p", { class: "dp-note" }, said(shut)),
      this.files.node,
      this.editor.node,
      found.trusted ? null : this.#confirm(trusted),
      this.say,
    );
    this.files.choose(this.files.paths[0]);
  }

  /** @param {string} path */
  show(path) {
    this.editor.show(path, this.found.files[path], false);
  }

  /** @param {(told: Method) => void} trusted */
  #confirm(trusted) {
    const { can_trust: can, why_not: why } = this.found;
    if (!can) return el("p", { class: "dp-status bad" }, said(why));
    const press = async () => {
      const told = await trustMethod(this.found);
      if (told.error) this.#problem(told.error);
      else trusted(told);
    };
    this.go = createButton(tr("Run this code here"), press, { class: "dp-btn f-go me-confirm" });
    const asked = tr(
      "Read it first. It may run here from then on, until one of its characters changes.",
    );
    return el("div", { class: "dp-row me-row" }, this.go, el("span", { class: "dp-note" }, asked));
  }

  /** @param {string} sentence */
  #problem(sentence) {
    this.say.className = "dp-status bad";
    this.say.textContent = said(sentence);
  }

  /**
   * Show an error at the file and line that it names, else as the status.
   * @param {string} sentence
   */
  point(sentence) {
    const place = findFileLine(sentence);
    if (!place || !(place.path in this.found.files)) return this.#problem(sentence);
    this.files.choose(place.path);
    this.editor.mark(place.line, said(sentence));
    this.editor.goTo(place.line);
  }

  focus() {
    (this.go ?? this.files.buttons[0] ?? this.editor.area).focus();
  }

  leave() {}
}

export class MethodPanel {
  /** @type {MethodReader | MethodEditor | NewMethodForm | null} */
  #inside = null;
  #name = "";
  #asked = 0;

  /**
   * @param {string} id
   * @param {(name: string) => void} use chooses a method in the tab's form
   * @param {() => Record<string, any>} values returns the form's values
   * @param {(said: string) => void} done focuses the tab's form and shows a sentence there
   */
  constructor(id, use, values, done) {
    this.use = use;
    this.values = values;
    this.done = done;
    this.title = el("h3", { tabindex: -1 });
    this.badge = el("span", { class: "me-badge" });
    const close = createButton("✕", () => this.close(), {
      class: "dp-btn me-close",
      "aria-label": tr("Close"),
    });
    this.body = el("div", { class: "me-body" });
    this.box = el(
      "section",
      { id, class: "dp-card me-panel", "aria-label": tr("The code of a method") },
      el("div", { class: "me-head" }, this.title, this.badge, close),
      this.body,
    );
    this.box.hidden = true;
  }

  /**
   * Close the panel.
   * @param {string} [said] sentence to show in the tab's status
   */
  close(said = "") {
    this.#inside?.leave();
    this.#inside = null;
    this.#name = "";
    this.box.hidden = true;
    this.done(said);
  }

  /**
   * Open the panel.
   * @param {{ name?: string, make?: boolean, problem?: string, quiet?: boolean }} what
   *   name: the method to show; make: show the form for a new one; problem: an error to show at its
   *   line; quiet: do not move the focus
   */
  async open({ name = "", make = false, problem = "", quiet = false }) {
    const number = ++this.#asked;
    if (name && name === this.#name && this.#inside) return this.#point(problem, quiet);
    this.#name = name;
    this.#fill(make ? MADE_HERE : name, "", el("p", { class: "dp-note" }, ASKING));
    const about = await fetchMethodList();
    const found = make ? null : await fetchMethodInfo(name);
    if (number !== this.#asked) return;
    if (make) this.#make(about);
    else if (found) this.#show(found, about);
    this.#point(problem, quiet);
  }

  /**
   * @param {string} problem
   * @param {boolean} quiet
   */
  #point(problem, quiet) {
    this.box.scrollIntoView({ block: "nearest" });
    if (problem) this.#inside?.point(problem);
    else if (!quiet) (this.#inside ?? this.title).focus();
  }

  /** @param {import("../forms/methods.mjs").Listed} about */
  #make(about) {
    const made = new NewMethodForm(about, (name) => {
      updateMethod(name);
      this.use(name);
      this.open({ name });
    });
    this.#put(made, MADE_HERE, "");
  }

  /**
   * @param {Method} found
   * @param {import("../forms/methods.mjs").Listed} about
   */
  #show(found, about) {
    const { name, error, to_fetch: toFetch } = found;
    const own = found.own || about.offers.some((o) => o.name === name && o.group === "Yours");
    if (own) {
      const editing = new MethodEditor(name, about.shut_in, () => this.#argumentsFor(name));
      return this.#put(editing, name, "yours");
    }
    if (error || toFetch) {
      const words = error ?? tr("Its code is not on this machine yet: fetch it first.");
      return this.#fill(name, "", el("p", { class: "dp-status bad", role: "status" }, said(words)));
    }
    this.#put(
      new MethodReader(found, about.shut_in, (told) => this.#trusted(told, about)),
      name,
      trustBadge(found),
    );
  }

  /**
   * Return the form's arguments for a method; none if the form has chosen another method.
   * @param {string} name
   */
  #argumentsFor(name) {
    const { method: chosen, arguments: given } = this.values();
    if (chosen !== name || !given) return {};
    try {
      return JSON.parse(given);
    } catch {
      return given;
    }
  }

  /**
   * @param {Method & { changed?: boolean }} told
   * @param {import("../forms/methods.mjs").Listed} about
   */
  #trusted(told, about) {
    if (!told.changed) return this.close(CONFIRMED);
    this.#show(told, about);
    this.#inside?.point(CHANGED);
    this.#inside?.focus();
  }

  /**
   * @param {MethodReader | MethodEditor | NewMethodForm} inside
   * @param {string} title
   * @param {string} badge
   */
  #put(inside, title, badge) {
    this.#fill(title, badge, inside.node);
    this.#inside = inside;
  }

  /**
   * @param {string} title
   * @param {string} badge
   * @param {HTMLElement} node
   */
  #fill(title, badge, node) {
    this.#inside?.leave();
    this.#inside = null;
    this.box.hidden = false;
    this.title.textContent = title;
    this.badge.textContent = BADGES[badge] ?? "";
    this.badge.className = `me-badge ${badge}`;
    this.badge.hidden = !badge;
    this.body.replaceChildren(node);
  }

  // Saves the edited code before a run; false if it does not load as a method.
  async save() {
    return this.#inside instanceof MethodEditor ? this.#inside.save() : true;
  }

  /**
   * Whether a method has unsaved changes in the open editor.
   * @param {string} name
   */
  unsaved(name) {
    return name === this.#name && this.#inside instanceof MethodEditor && this.#inside.dirty;
  }

  /**
   * Open the code of a method whose run failed, if the error is in it or it needs to be trusted.
   * @param {string} name
   * @param {string} sentence
   */
  async failed(name, sentence) {
    if (findFileLine(sentence)) return this.open({ name, problem: sentence });
    const found = await fetchMethodInfo(name);
    if (found.why_not || found.to_fetch) this.open({ name });
  }
}
