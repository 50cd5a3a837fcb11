// The editor of the visitor's own method: edit, save and check its files without losing changes.
import { button, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { placeIn } from "../forms/method_navigation.mjs";
import { learnt } from "../forms/methods.mjs";
import { CodeEditor } from "../shell/code_editor.mjs";
import { FileTabs } from "../shell/file_tabs.mjs";
import { ask } from "../shell/questions.mjs";
import { MethodChecks } from "./method_checks.mjs";
import { draftOf, keepDraft } from "./unsaved_files.mjs";

const SAVED = tr("Saved. Run uses it.");
const DRAFT = tr("What you typed last is not saved yet; this browser has kept it.");
const UNKEPT = tr("This browser keeps nothing: save before you leave the page.");
// Below the server's limit for one request.
const MOST_BYTES = 900_000;
const LONG = tr("This file is too long to be saved from the page; nothing was written.");
const CHANGED = tr(
  "Something else has changed this file since it was opened here. Nothing was written.",
);

/** @param {string} path */
const quoted = (path) =>
  /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;

export class MethodEditing {
  // Path -> the saved text with its version mark, and the edited text.
  /** @type {Record<string, { text: string, mark: string, typed: string }>} */
  #files = {};
  #unkept = false;
  #waiting = "";

  /**
   * @param {string} name
   * @param {string} shut one line about the sandbox's permissions
   * @param {() => any} given returns the arguments for the check
   */
  constructor(name, shut, given) {
    this.name = name;
    this.node = el("div", {}, el("p", { class: "dp-note" }, said(shut)));
    this.say = el("p", { class: "dp-status", role: "status" });
    this.editor = new CodeEditor({ changed: () => this.#typed(), save: () => this.save() });
    this.checks = new MethodChecks(name, given, async () => !this.dirty || this.save());
    this.warn = (event) => this.#unkept && this.dirty && event.preventDefault();
    addEventListener("beforeunload", this.warn);
    this.begun = this.#begin();
  }

  async #begin() {
    const told = await ask({ action: "method_files", name: this.name });
    if (told.error) return this.#tell(told.error, true);
    this.#take(told.files);
    this.files = new FileTabs(Object.keys(told.files), (path) => this.#show(path));
    this.anyway = button(tr("Save mine"), () => this.save(true));
    this.theirs = button(tr("Take what is there"), () => this.#back());
    this.undo = button(tr("Back to what is saved"), () => this.#back());
    this.anyway.hidden = this.theirs.hidden = true;
    const save = button(tr("Save"), () => this.save(), { class: "dp-btn f-go" });
    const acts = [save, this.anyway, this.theirs, this.undo, this.checks.go, this.checks.halt];
    this.node.append(
      this.files.node,
      this.editor.node,
      el("div", { class: "dp-row me-row" }, acts),
      this.say,
      this.checks.node,
      this.#publish(told.folder),
    );
    this.files.choose(this.files.paths[0]);
    this.#mark();
    if (this.dirty) this.#tell(DRAFT);
    if (this.#waiting) this.point(this.#waiting);
    else if (told.problem) this.point(told.problem, false);
  }

  #take(files) {
    for (const [path, { text, mark }] of Object.entries(files)) {
      const draft = draftOf(this.name, path);
      this.#files[path] = { text, mark, typed: draft?.text ?? this.#files[path]?.typed ?? text };
    }
  }

  #publish(folder) {
    const command = `python -m engine method push ${quoted(folder)} --to owner/${this.name}`;
    const copy = button(tr("Copy"), async () => {
      await navigator.clipboard.writeText(command);
      copy.textContent = tr("Copied");
      setTimeout(() => {
        copy.textContent = tr("Copy");
      }, 1500);
    });
    const words = tr(
      "To others: this shows what it would upload to a repository of yours, and asks.",
    );
    return el(
      "details",
      { class: "me-publish" },
      el("summary", {}, tr("Publish it")),
      el("p", { class: "dp-note" }, words),
      el("div", { class: "me-command" }, el("code", { tabindex: 0 }, command), copy),
    );
  }

  #show(path) {
    this.editor.show(path, this.#files[path].typed, true);
  }

  #unsaved(path) {
    const { text, typed } = this.#files[path];
    return text !== typed;
  }

  get dirty() {
    return Object.keys(this.#files).some((path) => this.#unsaved(path));
  }

  #typed() {
    const path = this.files.chosen;
    const file = this.#files[path];
    file.typed = this.editor.text;
    const mark = draftOf(this.name, path)?.mark ?? file.mark;
    const draft = this.#unsaved(path) ? { text: file.typed, mark } : null;
    this.#unkept = !keepDraft(this.name, path, draft);
    this.#tell(this.#unkept && draft ? UNKEPT : "");
    this.#mark();
  }

  #mark() {
    this.files.tell((path) => this.#unsaved(path));
    this.undo.hidden = !this.dirty || !this.anyway.hidden;
  }

  /**
   * Save all changed files.
   * @param {boolean} [anyway] overwrite files that something else has changed
   * @returns {Promise<boolean>} whether everything is saved and loads as a method
   */
  async save(anyway = false) {
    await this.begun;
    const paths = Object.keys(this.#files).filter((path) => this.#unsaved(path));
    let told = null;
    for (const path of paths.length ? paths : [this.files.chosen]) {
      const { typed, mark } = this.#files[path];
      const draft = draftOf(this.name, path);
      const before = anyway ? null : (draft?.mark ?? mark);
      if (new Blob([JSON.stringify(typed)]).size > MOST_BYTES) return this.#refused(LONG);
      told = await ask({ action: "method_save", name: this.name, file: path, text: typed, before });
      if (told.error) return this.#refused(told.error);
      if (told.changed) return this.#conflict(told.files);
      keepDraft(this.name, path, null);
      this.#saved(told.files, path, typed);
    }
    this.#conflict(null);
    learnt(this.name);
    if (told.problem) this.point(told.problem);
    else {
      this.editor.mark(0);
      this.#tell(SAVED);
    }
    return !told.problem;
  }

  // Keeps what the visitor typed during the save.
  #saved(files, path, written) {
    for (const [one, { text, mark }] of Object.entries(files)) {
      const { typed } = this.#files[one];
      this.#files[one] = { text, mark, typed: one === path && typed === written ? text : typed };
    }
    this.#mark();
  }

  #refused(sentence) {
    this.#tell(sentence, true);
    return false;
  }

  #conflict(files) {
    this.anyway.hidden = this.theirs.hidden = !files;
    if (files) {
      for (const [path, { text, mark }] of Object.entries(files))
        Object.assign(this.#files[path], { text, mark });
      this.#tell(CHANGED, true);
    }
    this.#mark();
    return false;
  }

  #back() {
    for (const [path, file] of Object.entries(this.#files)) {
      file.typed = file.text;
      keepDraft(this.name, path, null);
    }
    this.#conflict(null);
    this.#show(this.files.chosen);
    this.#tell("");
    this.editor.area.focus();
  }

  #tell(words, bad = false) {
    this.say.className = `dp-status${bad ? " bad" : ""}`;
    this.say.textContent = said(words);
  }

  // Shows an error at the file and line that it names, else as the status.
  point(sentence, going = true) {
    if (!this.files) {
      this.#waiting = sentence;
      return;
    }
    const place = placeIn(sentence);
    if (!place || !(place.path in this.#files)) return this.#tell(sentence, true);
    this.#tell("");
    if (this.files.chosen !== place.path) this.files.choose(place.path);
    this.editor.mark(place.line, said(sentence));
    if (going) this.editor.goTo(place.line);
  }

  async focus() {
    await this.begun;
    this.editor.area.focus({ preventScroll: true });
  }

  leave() {
    removeEventListener("beforeunload", this.warn);
    this.checks.stop();
  }
}
