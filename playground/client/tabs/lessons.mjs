// The lessons tab: the list of lessons, the open lesson, and the upload of a lesson of your own.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { parseMessage, readMessage, said } from "../../../visualizers/shared/server_text.mjs";
import { pageLanguage, tr } from "../../../visualizers/shared/tr.mjs";
import { Recordings } from "../../../visualizers/stage/recordings.mjs";
import { Stages } from "../../../visualizers/stage/stage.mjs";
import { VIEWS } from "../../../visualizers/stage/views.mjs";
import { whatIf } from "../inspect/what_if.mjs";
import { why } from "../inspect/why.mjs";
import { beginJob, receiveProgress } from "../jobs/job.mjs";
import { createHandout } from "../lessons/handout.mjs";
import { LessonView } from "../lessons/lesson.mjs";
import { recordedInfluence } from "../lessons/recorded_influence.mjs";
import { ClassFollower } from "../rooms/class_follower.mjs";
import { presentLesson } from "../rooms/presenter.mjs";
import { registerLink, scheduleAddressUpdate } from "../shell/address.mjs";
import { registerOtherTab } from "../shell/other_tabs.mjs";
import { store } from "../shell/page_state.mjs";
import { waitUntilFound } from "../shell/polling.mjs";
import { mountLayout, NARROW } from "../shell/tab_layout.mjs";
import { runForm } from "../shell/tab_navigation.mjs";

const TAB_KEY = "lessons";
const QUESTION_VIEWS = ["why", "what_if"];
const MAX_CHARACTERS = 100_000;

/** @import { Lesson } from "../lessons/lesson.mjs" */

/**
 * A lesson's entry in the list.
 * @typedef {object} Listed
 * @property {string} name
 * @property {string} language
 * @property {string} title
 * @property {string} summary
 * @property {number} minutes
 * @property {string[]} cards titles
 * @property {string} [error] why it cannot be shown
 */

class LessonsTab {
  #place;
  #trigger;
  /** @type {Listed[]} */
  #listed = [];
  #version = "";
  /** @type {{ title: string, minutes: number, stops: { lesson: string, say: string }[] }} */
  #path = { title: "", minutes: 0, stops: [] };
  #asked = 0;
  /** @type {LessonView | null} */
  #view = null;
  /** @type {ReturnType<typeof createHandout> | null} */
  #sheet = null;

  /**
   * @param {HTMLElement} root
   * @param {Context["trigger"]} trigger
   */
  constructor(root, trigger) {
    this.#trigger = trigger;
    // Lessons have a store of their own: a store keeps 24 runs, and a handout would push out the
    // visitor's.
    const recordings = new Recordings();
    const stages = new Stages(recordings);
    stages.register({ ...VIEWS, why, what_if: whatIf, looked: recordedInfluence });
    this.#place = { recordings, stages, more: QUESTION_VIEWS, trigger: () => {} };
    this.shelf = el("ul", { class: "ls-shelf" });
    this.about = el("p", { class: "dp-note" });
    this.all = el(
      "details",
      { class: "ls-all", open: true },
      el("summary", {}, tr("All lessons")),
      this.about,
      this.shelf,
    );
    this.note = el("p", { class: "dp-status", role: "status" });
    this.shell = el("div", { class: "ls-shell" });
    this.tools = el("div", { class: "ls-tools dp-row", hidden: true });
    this.led = new ClassFollower();
    mountLayout(
      root,
      tr("Lessons"),
      tr(
        "Predict first, then see what the model really did. Every answer is read off a recorded run.",
      ),
      {
        ask: [this.all],
        right: el("div", { class: "ls-right" }, this.note, this.tools, this.led.node, this.shell),
        settings: [this.#createFilePicker()],
      },
    );
    this.#createTools();
    registerOtherTab(TAB_KEY, this);
    registerLink(root, () => this.#pageAddress());
    addEventListener("beforeprint", () => this.#addHandout(root));
    addEventListener("afterprint", () => this.#removeHandout());
    store.watch({
      active: (key) => key === TAB_KEY && this.#showActivity(store.activity(TAB_KEY)),
    });
    this.#fetchLessons().catch(() =>
      this.refuse(tr("The lessons could not be fetched. Reload the page.")),
    );
  }

  // The file field for a lesson of your own.
  #createFilePicker() {
    const file = el("input", {
      type: "file",
      accept: ".md,text/markdown",
      id: "lessons-file",
      onchange: () => this.#openFile(file),
    });
    return el(
      "div",
      { class: "ls-open-file" },
      el("label", { class: "dp-label", for: "lessons-file" }, tr("A lesson of your own (.md)")),
      file,
      el(
        "p",
        { class: "dp-note" },
        tr("Its runs are made here. docs/teaching.md explains how to write one."),
      ),
    );
  }

  #createTools() {
    this.tools.append(
      createButton(tr("Present"), () => this.present(), {
        title: tr("One card on the whole screen; Page Down goes on"),
      }),
      createButton(tr("Let a class bet"), () => this.#view && this.led.toggle(this.#view), {
        title: tr("Opens a room that a class joins by a code"),
      }),
      createButton(tr("Print the handout"), () => print(), {
        title: tr("Questions first, answers on a separate page"),
      }),
    );
  }

  #pageAddress() {
    const view = this.#view;
    if (!view?.lesson.itself) return `?tab=${TAB_KEY}`;
    const { about } = view.lesson;
    const language = about.language === pageLanguage() ? "" : `&in=${about.language}`;
    const card = Math.min(view.at + 1, view.cards.length);
    return `?tab=${TAB_KEY}&lesson=${about.name}${language}&card=${card}`;
  }

  async #fetchLessons() {
    const answer = await fetch(new URL("./lessons/index.json", document.baseURI));
    if (!answer.ok) throw new Error("lessons");
    const { version, lessons, paths } = await readMessage(answer);
    this.#version = version;
    this.#listed = lessons;
    this.#path = paths[pageLanguage()] ?? paths.en;
    const stops = this.#path.stops.map((stop) => stop.lesson);
    const names = [...new Set([...stops, ...this.#listed.map((lesson) => lesson.name)])];
    this.about.textContent = tr(
      "{title}: {n} lessons in an order in which each needs what came before.",
      {
        title: this.#path.title,
        n: stops.length,
      },
    );
    this.shelf.replaceChildren(...names.map((name) => this.#createEntry(name)));
    if (!new URLSearchParams(location.search).has("lesson")) this.#showFirst();
  }

  // Show the first lesson if none was requested. A message on the page stays.
  #showFirst() {
    const first = this.shelf.querySelector("[data-lesson]")?.getAttribute("data-lesson");
    if (first && !this.#asked)
      this.show(first, this.#findTranslation(first).language, 1, { anew: false });
  }

  /**
   * Return a lesson in the reader's language, else in English, else in any language.
   * @param {string} name
   */
  #findTranslation(name, language = pageLanguage()) {
    const all = this.#listed.filter((lesson) => lesson.name === name);
    /** @param {string} wanted */
    const of = (wanted) => all.find((lesson) => lesson.language === wanted);
    return of(language) ?? of("en") ?? all[0];
  }

  /** @param {string} name */
  #createEntry(name) {
    const { title, summary, minutes, cards, error, language } = this.#findTranslation(name);
    if (error) return el("li", {}, el("p", { class: "dp-status bad" }, `${name}: ${said(error)}`));
    const others = this.#listed.filter(
      (one) => one.name === name && one.language !== language && !one.error,
    );
    return el(
      "li",
      { "data-lesson": name },
      createButton(title, () => this.show(name, language), { class: "dp-btn dp-preset" }),
      el(
        "p",
        { class: "pr-shows" },
        summary,
        " ",
        el(
          "span",
          { class: "ls-size" },
          tr("{cards} cards, {minutes} min", { cards: cards.length, minutes }),
        ),
      ),
      others.length
        ? el(
            "p",
            { class: "ls-languages" },
            others.map((one) =>
              createButton(one.language.toUpperCase(), () => this.show(name, one.language), {
                lang: one.language,
                "aria-label": one.title,
              }),
            ),
          )
        : null,
    );
  }

  /**
   * Fetch a lesson and show one of its cards.
   * @param {string} name
   * @param {string} language
   * @param {number} [card] from 1
   * @param {{ anew?: boolean }} [how] anew: whether to clear the message on the page
   */
  async show(name, language, card = 1, { anew = true } = {}) {
    const number = ++this.#asked;
    if (anew) this.#showNote("");
    const address = `./lessons/${this.#version}/${name}.${language}.json`;
    const answer = await fetch(new URL(address, document.baseURI)).catch(() => null);
    if (number !== this.#asked) return;
    // An answer of something between here and the server need not be JSON.
    const lesson = answer && (await readMessage(answer).catch(() => null));
    if (!answer?.ok || !lesson)
      return this.refuse(
        lesson?.error ? said(lesson.error) : tr("The lesson could not be fetched."),
      );
    this.#showLesson({ ...lesson, itself: true }, card);
  }

  /**
   * @param {Lesson} lesson
   * @param {number} card from 1
   */
  #showLesson(lesson, card) {
    const view = new LessonView(lesson, {
      place: this.#place,
      open: runForm,
      moved: () => {
        if (view !== this.#view) return;
        scheduleAddressUpdate();
        this.led.lead();
      },
      after: () => this.#createNextLink(lesson.about.name),
    });
    this.#view = view;
    view.node.setAttribute("lang", lesson.about.language);
    this.shell.replaceChildren(view.node);
    this.tools.hidden = false;
    if (NARROW.matches) this.all.open = false;
    for (const item of this.shelf.querySelectorAll("li"))
      item.classList.toggle("on", item.dataset.lesson === lesson.about.name);
    view.go(card - 1, { focus: this.shell.getClientRects().length > 0 });
    this.led.showing(view);
  }

  /**
   * Return the next lesson on the path, with the sentence that leads to it.
   * @param {string} name
   */
  #createNextLink(name) {
    const { stops } = this.#path;
    const at = stops.findIndex((stop) => stop.lesson === name);
    const next = at < 0 ? null : stops[at + 1];
    if (!next) return [];
    const { title, language } = this.#findTranslation(next.lesson);
    const go = () => this.show(next.lesson, language);
    return [
      el("p", { class: "ls-next-lesson" }, next.say),
      createButton(tr("Next lesson: {title}", { title }), go, { class: "dp-btn ls-go" }),
    ];
  }

  present() {
    if (this.#view)
      presentLesson(this.#view, this.led, () => this.tools.querySelector("button")?.focus());
  }

  /** @param {{ lesson?: string, language?: string | null, card?: number }} found */
  async restore({ lesson, language, card }) {
    if (!lesson) return;
    waitUntilFound(
      () => this.#version,
      () =>
        this.show(lesson, this.#findTranslation(lesson, language ?? pageLanguage()).language, card),
    );
  }

  /** @param {string} error */
  refuse(error) {
    this.#showNote(error, true);
    this.#showFirst();
  }

  /** @param {string} words */
  #showNote(words, bad = false) {
    this.note.textContent = words;
    this.note.className = bad ? "dp-status bad" : "dp-status";
  }

  /** @param {HTMLInputElement} file */
  async #openFile(file) {
    const chosen = file.files?.[0];
    file.value = "";
    if (!chosen) return;
    if (chosen.size > 4 * MAX_CHARACTERS)
      return this.refuse(tr("A lesson has 100,000 characters at most."));
    const text = await chosen.text();
    beginJob(TAB_KEY, (more) => this.#trigger("input", { text, ...more }));
  }

  /** @param {Activity | undefined} activity */
  #showActivity(activity) {
    if (activity) this.#showNote(said(activity.says), activity.phase === "stopped");
  }

  /** @param {string} text a message of the server, as JSON */
  receive(text) {
    if (!text) return;
    const message = parseMessage(text);
    const { kind, error, lesson } = message;
    receiveProgress(TAB_KEY, message);
    if (kind === "progress") return;
    if (kind === "failed") return this.refuse(said(error));
    this.#showNote("");
    this.#showLesson({ ...lesson, itself: false }, 1);
  }

  /**
   * Add the handout before printing: questions first, then the answers.
   * @param {HTMLElement} root
   */
  #addHandout(root) {
    if (!this.#view || !root.getClientRects().length) return;
    const sheet = createHandout(this.#view.lesson, { ...this.#place, more: [] });
    this.#sheet = sheet;
    this.shell.append(sheet.node);
    sheet.draw();
    document.documentElement.classList.add("ls-printing");
  }

  #removeHandout() {
    this.#sheet?.node.remove();
    this.#sheet = null;
    document.documentElement.classList.remove("ls-printing");
  }
}

/**
 * @param {HTMLElement} root
 * @param {Context["trigger"]} trigger
 */
export const mountLessons = (root, trigger) => new LessonsTab(root, trigger);
