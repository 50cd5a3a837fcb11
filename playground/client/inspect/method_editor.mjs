// The editor of the visitor's own method: edit, save and check its files without losing changes.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { findFileLine } from "../forms/method_navigation.mjs";
import { updateMethod } from "../forms/methods.mjs";
import { CodeEditor } from "../shell/code_editor.mjs";
import { FileTabs } from "../shell/file_tabs.mjs";
import { askServer } from "../shell/questions.mjs";
import { MethodChecks } from "./method_checks.mjs";
import { loadUnsaved, storeUnsaved } from "./unsaved_files.mjs";

const SAVED = tr("Saved. Run uses it.");
const UNSAVED = tr("What you typed last is not saved yet; this browser has kept it.");
const NOT_STORED = tr("This browser keeps nothing: save before you leave the page.");
// Below the server's limit for one request.
const MAX_REQUEST_BYTES = 900_000;
const TOO_LONG = tr("This file is too long to be saved from the page; nothing was written.");
const CHANGED = tr(
  "Something else has changed this file since it was opened here. Nothing was written.",
);

/** @typedef {Record<string, { text: string, mark: string }>} SavedFiles by path */

export class MethodEditor {
  // Path -> the saved text with its version mark, and the edited text.
  /** @type {Record<string, { text: string, mark: string, typed: string }>} */
  #files = {};
  #notStored = false;
  /** @type {FileTabs | null} null until the files have come */
  #tabs = null;
  #pendingProblem = "";

  /**
   * @param {string} name
   * @param {string} shut one line about the sandbox's permissions
   * @param {() => any} given returns the arguments for the check
   */
  constructor(name, shut, given) {
    this.name = name;
    this.node = el("div", {}, el("p", { class: "dp-note" }, said(shut)));
    this.say = el("p", { class: "dp-status", role: "status" });
    this.editor = new CodeEditor({ changed: () => this.#recordInput(), save: () => this.save() });
    this.checks = new MethodChecks(name, given, async () => !this.dirty || this.save());
    this.warn = (/** @type {Event} */ event) =>
      this.#notStored && this.dirty && event.preventDefault();
    addEventListener("beforeunload", this.warn);
    this.anyway = createButton(tr("Save mine"), () => this.save(true));
    this.theirs = createButton(tr("Take what is there"), () => this.#revert());
    this.undo = createButton(tr("Back to what is saved"), () => this.#revert());
    this.anyway.hidden = this.theirs.hidden = true;
    this.begun = this.#begin();
  }

  async #begin() {
    const told = await askServer({ action: "method_files", name: this.name });
    if (told.error) return this.#showStatus(told.error, true);
    this.#mergeFiles(told.files);
    const tabs = new FileTabs(Object.keys(told.files), (path) => this.#show(path));
    this.#tabs = tabs;
    const save = createButton(tr("Save"), () => this.save(), { class: "dp-btn f-go" });
    const acts = [save, this.anyway, this.theirs, this.undo, this.checks.go, this.checks.halt];
    this.node.append(
      tabs.node,
      this.editor.node,
      el("div", { class: "dp-row me-row" }, acts),
      this.say,
      this.checks.node,
      this.#publish(told.push),
    );
    tabs.choose(tabs.paths[0]);
    this.#mark();
    if (this.dirty) this.#showStatus(UNSAVED);
    if (this.#pendingProblem) this.point(this.#pendingProblem);
    else if (told.problem) this.point(told.problem, false);
  }

  /** @param {SavedFiles} files */
  #mergeFiles(files) {
    for (const [path, { text, mark }] of Object.entries(files)) {
      const draft = loadUnsaved(this.name, path);
      this.#files[path] = { text, mark, typed: draft?.text ?? this.#files[path]?.typed ?? text };
    }
  }

  /** @param {string} command */
  #publish(command) {
    const copy = createButton(tr("Copy"), async () => {
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

  /** @param {string} path */
  #show(path) {
    this.editor.show(path, this.#files[path].typed, true);
  }

  /** @param {string} path */
  #unsaved(path) {
    const { text, typed } = this.#files[path];
    return text !== typed;
  }

  get dirty() {
    return Object.keys(this.#files).some((path) => this.#unsaved(path));
  }

  #recordInput() {
    const path = this.#chosen;
    const file = this.#files[path];
    file.typed = this.editor.text;
    const mark = loadUnsaved(this.name, path)?.mark ?? file.mark;
    const draft = this.#unsaved(path) ? { text: file.typed, mark } : null;
    this.#notStored = !storeUnsaved(this.name, path, draft);
    this.#showStatus(this.#notStored && draft ? NOT_STORED : "");
    this.#mark();
  }

  #mark() {
    this.#tabs?.tell((path) => this.#unsaved(path));
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
    let problem = "";
    for (const path of paths.length ? paths : [this.#chosen]) {
      const { typed, mark } = this.#files[path];
      const draft = loadUnsaved(this.name, path);
      const before = anyway ? null : (draft?.mark ?? mark);
      if (new Blob([JSON.stringify(typed)]).size > MAX_REQUEST_BYTES)
        return this.#refused(TOO_LONG);
      const told = await askServer({
        action: "method_save",
        name: this.name,
        file: path,
        text: typed,
        before,
      });
      if (told.error) return this.#refused(told.error);
      if (told.changed) return this.#conflict(told.files);
      storeUnsaved(this.name, path, null);
      this.#saved(told.files, path, typed);
      problem = told.problem;
    }
    this.#conflict(null);
    updateMethod(this.name);
    if (problem) this.point(problem);
    else {
      this.editor.mark(0);
      this.#showStatus(SAVED);
    }
    return !problem;
  }

  /**
   * Keep what the visitor typed during the save.
   * @param {SavedFiles} files
   * @param {string} path of the file that was saved
   * @param {string} written
   */
  #saved(files, path, written) {
    for (const [one, { text, mark }] of Object.entries(files)) {
      const { typed } = this.#files[one];
      this.#files[one] = { text, mark, typed: one === path && typed === written ? text : typed };
    }
    this.#mark();
  }

  /** @param {string} sentence */
  #refused(sentence) {
    this.#showStatus(sentence, true);
    return false;
  }

  /** @param {SavedFiles | null} files those on the disk, null for no conflict */
  #conflict(files) {
    this.anyway.hidden = this.theirs.hidden = !files;
    if (files) {
      for (const [path, { text, mark }] of Object.entries(files))
        Object.assign(this.#files[path], { text, mark });
      this.#showStatus(CHANGED, true);
    }
    this.#mark();
    return false;
  }

  #revert() {
    for (const [path, file] of Object.entries(this.#files)) {
      file.typed = file.text;
      storeUnsaved(this.name, path, null);
    }
    this.#conflict(null);
    this.#show(this.#chosen);
    this.#showStatus("");
    this.editor.area.focus();
  }

  /** @param {string} words */
  #showStatus(words, bad = false) {
    this.say.className = `dp-status${bad ? " bad" : ""}`;
    this.say.textContent = said(words);
  }

  get #chosen() {
    return this.#tabs?.chosen ?? "";
  }

  /**
   * Show an error at the file and line that it names, else as the status.
   * @param {string} sentence
   */
  point(sentence, going = true) {
    if (!this.#tabs) {
      this.#pendingProblem = sentence;
      return;
    }
    const place = findFileLine(sentence);
    if (!place || !(place.path in this.#files)) return this.#showStatus(sentence, true);
    this.#showStatus("");
    if (this.#chosen !== place.path) this.#tabs.choose(place.path);
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
