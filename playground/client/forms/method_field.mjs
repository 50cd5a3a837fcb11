// The field that chooses a custom generation method: a listed one or any name, with its details.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { methodSummary } from "../../../visualizers/stage/about.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { Choice } from "../shell/name_choice.mjs";
import { Field } from "./field.mjs";
import { openMethodPanel } from "./method_navigation.mjs";
import {
  downloadMethod,
  fetchMethodInfo,
  fetchMethodList,
  searchHubMethods,
  watchMethods,
} from "./methods.mjs";

/** @import { Param } from "../shell/spec.mjs" */

/** @typedef {import("./methods.mjs").Method} Method */

/** @type {Record<string, string>} */
const SOURCES = {
  shipped: tr("It is built in."),
  hub: tr("From the hub."),
  folder: tr("A folder of this machine."),
};

export class MethodField extends Field {
  /** @type {Method | null} details of the chosen method */
  known = null;
  /** @type {((found: Method | null) => void)[]} */
  #followers = [];
  // The method that the entered arguments belong to.
  #lastName = "";
  /** @type {(before: string, now: string) => void} */
  changed = () => {};
  /** @type {any[]} */
  #offered = [];
  /** @type {any[]} methods that a search of the hub has found */
  #found = [];
  // A download or a search.
  #hubQuestion = new StoppableQuestion();

  /**
   * @param {Param} param
   * @param {string} id
   */
  constructor(param, id) {
    super(param, id);
    const select = /** @type {HTMLSelectElement} */ (this.input);
    this.choice = new Choice(select, param.label, tr("hub id or folder"));
    this.choice.offer([{ name: param.value, title: param.value }]);
    this.choice.own.addEventListener("input", () => this.compare());
    for (const input of [select, this.choice.own])
      input.addEventListener("change", () => this.#choose());
    this.told = el("p", { class: "me-info" });
    this.say = el("p", { class: "me-say", role: "status" });
    this.ran = el("p", { class: "me-info", "aria-live": "polite" });
    this.acts = el("div", { class: "me-acts" });
    select.after(this.choice.own);
    this.box.append(el("div", { class: "me-about" }, this.told, this.say, this.acts, this.ran));
    this.box.classList.add("f-model");
    watchMethods((name) => {
      this.#list();
      if (name === this.value) this.look();
    });
    this.#list();
  }

  split() {
    const title = el("p", { class: "me-title" }, this.param.label);
    const parts = [title, this.told, this.acts, this.ran];
    return {
      dial: this.box,
      rest: el("div", { class: "me-about", id: `${this.box.id}-about` }, parts),
    };
  }

  read() {
    return this.choice?.value ?? "";
  }

  /** @param {any} value */
  write(value) {
    const name = String(value ?? "");
    // Until the list is there, the name stands for itself.
    if (name && !this.#offered.length) this.choice.offer([{ name, title: name }]);
    this.choice.value = name;
    this.#lastName = this.value;
    this.look();
  }

  // Another method is chosen: the old one's arguments do not apply to it.
  #choose() {
    const { value } = this;
    if (value && value !== this.#lastName) {
      this.changed(this.#lastName, value);
      this.#lastName = value;
    }
    this.look();
  }

  /**
   * Call a function with the chosen method's details, now and after every change.
   * @param {(found: Method | null) => void} follower
   */
  follow(follower) {
    this.#followers.push(follower);
    follower(this.known);
  }

  /**
   * Show which code the displayed run used.
   * @param {any} [info] of its trace
   */
  tell(info) {
    const words = info
      ? tr("In the run shown: {method}…", { method: methodSummary(info, 12) })
      : "";
    if (this.ran.textContent !== words) this.ran.textContent = words;
  }

  async #list() {
    const { offers = [], makes = false } = await fetchMethodList();
    this.makes = makes;
    const listed = new Set(offers.map(({ name }) => name));
    this.#offered = [...offers, ...this.#found.filter(({ name }) => !listed.has(name))];
    const { value } = this;
    this.choice.offer(
      this.#offered.map(({ name, group }) => ({ name, title: name, group: said(group) })),
    );
    this.choice.value = value;
    this.#draw();
  }

  // Fetches and shows the details of the chosen method.
  async look() {
    const { value } = this;
    if (this.known?.name !== value) this.#setInfo(null, value ? "" : tr("Name a method first."));
    if (!value) return;
    const found = await fetchMethodInfo(value);
    if (value === this.value) this.#setInfo(found, found.error ?? "");
  }

  /** @param {Method | null} found */
  #setInfo(found, words = "") {
    this.known = found;
    this.say.textContent = said(words);
    this.#draw();
    for (const follower of this.#followers)
      follower(found?.error || found?.to_fetch ? null : found);
  }

  #draw() {
    const { value, known } = this;
    const offer = this.#offered.find(({ name }) => name === value);
    const told = said(known?.summary || offer?.told || "");
    const tab = offer?.tab ? tr("A tab of this page does the same and shows its reasons.") : "";
    const source = known && !known.error && !known.to_fetch ? SOURCES[known.source] : "";
    this.told.textContent = [told, source, tab].filter(Boolean).join(" ");
    if (known?.to_fetch)
      this.say.textContent = tr("It is on the hub; its code is not on this machine yet.");
    else if (known?.why_not)
      this.say.textContent = tr("Nobody has confirmed its code here yet: look at it first.");
    this.acts.replaceChildren(...this.#buttons());
  }

  #buttons() {
    const { known } = this;
    const small = { class: "dp-btn me-btn" };
    const made = this.makes
      ? [
          createButton(tr("Search the hub"), () => this.#search(), small),
          createButton(tr("New method…"), () => openMethodPanel({ make: true }), small),
        ]
      : [];
    if (this.#hubQuestion.isOpen)
      return [createButton(tr("Stop"), () => this.#hubQuestion.stop(), small)];
    if (known?.to_fetch)
      return [createButton(tr("Fetch its code"), () => this.#fetch(), small), ...made];
    const broken = this.#offered.some(
      ({ name, group }) => name === this.value && group === "Yours",
    );
    if (!known || (known.error && !broken)) return made;
    const words = known.own || broken ? tr("Change its code") : tr("Show its code");
    return [createButton(words, () => openMethodPanel({ name: this.value }), small), ...made];
  }

  async #fetch() {
    const { value } = this;
    const answer = this.#hubQuestion.ask((press) => downloadMethod(value, press));
    const { error } = await this.#waitForHub(answer, tr("Fetching its code…"));
    this.#draw();
    if (error) this.say.textContent = said(error);
    else openMethodPanel({ name: value });
  }

  async #search() {
    const answer = this.#hubQuestion.ask(searchHubMethods);
    const { offers = [], error } = await this.#waitForHub(answer, tr("Searching the hub…"));
    if (!error) this.#found = offers;
    await this.#list();
    const count = offers.length;
    if (error) this.say.textContent = said(error);
    else if (count)
      this.say.textContent = tr("{n} methods found on the hub. Choose one in the list.", {
        n: count,
      });
    else this.say.textContent = tr("The hub has no methods now.");
  }

  /**
   * Show what the hub is asked for, with a button that stops it.
   * @param {Promise<any>} answer
   * @param {string} words
   */
  #waitForHub(answer, words) {
    this.say.textContent = words;
    this.acts.replaceChildren(...this.#buttons());
    /** @type {HTMLElement | null} */ (this.acts.firstElementChild)?.focus();
    return answer;
  }
}
