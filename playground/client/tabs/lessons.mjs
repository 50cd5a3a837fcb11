// The lessons tab: the list of lessons, the open lesson, and the upload of a lesson of your own.
import { button, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { spoken, tr } from "../../../visualizers/shared/tr.mjs";
import { Recordings } from "../../../visualizers/stage/recordings.mjs";
import { Stages } from "../../../visualizers/stage/stage.mjs";
import { VIEWS } from "../../../visualizers/stage/views.mjs";
import { whatIf } from "../inspect/what_if.mjs";
import { why } from "../inspect/why.mjs";
import { handout } from "../lessons/handout.mjs";
import { LessonView } from "../lessons/lesson.mjs";
import { lookedKept } from "../lessons/recorded_influence.mjs";
import { ClassLed } from "../rooms/class_follower.mjs";
import { present } from "../rooms/presenter.mjs";
import { press } from "../runs/press.mjs";
import { follow, linked } from "../shell/address.mjs";
import { keepPart } from "../shell/other_tabs.mjs";
import { store } from "../shell/page_state.mjs";
import { whenThere } from "../shell/polling.mjs";
import { runForm } from "../shell/tab_navigation.mjs";
import { layout } from "./strategy_tab.mjs";

const KEY = "lessons";
const ASKS = ["why", "what_if"];
const MOST = 100_000;
const NARROW = matchMedia("(max-width: 799px)");

class LessonsTab {
  #place;
  #trigger;
  #listed = [];
  #version = "";
  #path = { title: "", minutes: 0, stops: [] };
  #asked = 0;
  /** @type {LessonView | null} */
  #view = null;
  #sheet = null;

  constructor(root, trigger) {
    this.#trigger = trigger;
    // Lessons have a store of their own: a store keeps 24 runs, and a handout would push out the
    // visitor's.
    const recordings = new Recordings();
    const stages = new Stages(recordings);
    stages.register({ ...VIEWS, why, what_if: whatIf, looked: lookedKept });
    this.#place = { recordings, stages, more: ASKS, trigger: () => {} };
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
    this.led = new ClassLed();
    layout(
      root,
      tr("Lessons"),
      tr(
        "Predict first, then see what the model really did. Every answer is read off a recorded run.",
      ),
      {
        ask: [this.all],
        right: el("div", { class: "ls-right" }, this.note, this.tools, this.led.node, this.shell),
        settings: [this.#own()],
      },
    );
    this.#tooled();
    keepPart(KEY, this);
    linked(root, () => this.#link());
    addEventListener("beforeprint", () => this.#unfold(root));
    addEventListener("afterprint", () => this.#fold());
    store.watch({ active: (key) => key === KEY && this.#say(store.activity(KEY)) });
    this.#list().catch(() => this.refuse(tr("The lessons could not be fetched. Reload the page.")));
  }

  // The file field for a lesson of your own.
  #own() {
    const file = el("input", {
      type: "file",
      accept: ".md,text/markdown",
      id: "lessons-file",
      onchange: () => this.#open(file),
    });
    return el(
      "div",
      { class: "ls-own" },
      el("label", { class: "dp-label", for: "lessons-file" }, tr("A lesson of your own (.md)")),
      file,
      el(
        "p",
        { class: "dp-note" },
        tr("Its runs are made here. How to write one stands in docs/lessons.md."),
      ),
    );
  }

  #tooled() {
    this.tools.append(
      button(tr("Present"), () => this.present(), {
        title: tr("One card on the whole screen; Page Down goes on"),
      }),
      button(tr("Let a class bet"), () => this.led.toggle(this.#view), {
        title: tr("Opens a room that a class joins by a code"),
      }),
      button(tr("Print the handout"), () => print(), {
        title: tr("Questions first, what is right on a page of its own"),
      }),
    );
  }

  #link() {
    const { about, itself } = this.#view?.lesson ?? {};
    if (!itself) return `?tab=${KEY}`;
    const language = about.language === spoken() ? "" : `&in=${about.language}`;
    const card = Math.min(this.#view.at + 1, this.#view.cards.length);
    return `?tab=${KEY}&lesson=${about.name}${language}&card=${card}`;
  }

  async #list() {
    const answer = await fetch(new URL("./lessons/index.json", document.baseURI));
    if (!answer.ok) throw new Error("lessons");
    const { version, lessons, paths } = await answer.json();
    this.#version = version;
    this.#listed = lessons;
    this.#path = paths[spoken()] ?? paths.en;
    const stops = this.#path.stops.map((stop) => stop.lesson);
    const names = [...new Set([...stops, ...lessons.map((lesson) => lesson.name)])];
    this.about.textContent = tr(
      "{title}: {n} lessons in an order in which each needs what came before.",
      {
        title: this.#path.title,
        n: stops.length,
      },
    );
    this.shelf.replaceChildren(...names.map((name) => this.#entry(name)));
    if (!new URLSearchParams(location.search).has("lesson")) this.#begin();
  }

  // Show the first lesson if none was requested. A message on the page stays.
  #begin() {
    const first = this.shelf.querySelector("[data-lesson]")?.getAttribute("data-lesson");
    if (first && !this.#asked)
      this.show(first, this.#inLanguage(first).language, 1, { anew: false });
  }

  // A lesson in the reader's language, else in English, else in any language.
  #inLanguage(name, language = spoken()) {
    const all = this.#listed.filter((lesson) => lesson.name === name);
    const of = (wanted) => all.find((lesson) => lesson.language === wanted);
    return of(language) ?? of("en") ?? all[0];
  }

  #entry(name) {
    const { title, summary, minutes, cards, error, language } = this.#inLanguage(name);
    if (error) return el("li", {}, el("p", { class: "dp-status bad" }, `${name}: ${said(error)}`));
    const others = this.#listed.filter(
      (one) => one.name === name && one.language !== language && !one.error,
    );
    return el(
      "li",
      { "data-lesson": name },
      button(title, () => this.show(name, language), { class: "dp-btn dp-preset" }),
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
              button(one.language.toUpperCase(), () => this.show(name, one.language), {
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
    if (anew) this.#told("");
    const address = `./lessons/${this.#version}/${name}.${language}.json`;
    const answer = await fetch(new URL(address, document.baseURI)).catch(() => null);
    if (number !== this.#asked) return;
    if (!answer?.ok)
      return this.refuse(
        answer ? said(await answer.text()) : tr("The lesson could not be fetched."),
      );
    this.#showLesson({ ...(await answer.json()), itself: true }, card);
  }

  #showLesson(lesson, card) {
    const view = new LessonView(lesson, {
      place: this.#place,
      open: runForm,
      moved: () => {
        if (view !== this.#view) return;
        follow();
        this.led.lead();
      },
      after: () => this.#onward(lesson.about.name),
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

  // The next lesson on the path, with the sentence that leads to it.
  #onward(name) {
    const { stops } = this.#path;
    const at = stops.findIndex((stop) => stop.lesson === name);
    const next = at < 0 ? null : stops[at + 1];
    if (!next) return [];
    const { title, language } = this.#inLanguage(next.lesson);
    const go = () => this.show(next.lesson, language);
    return [
      el("p", { class: "ls-onward" }, next.say),
      button(tr("Next lesson: {title}", { title }), go, { class: "dp-btn ls-go" }),
    ];
  }

  present() {
    if (this.#view) present(this.#view, this.led, () => this.tools.querySelector("button").focus());
  }

  async restore({ lesson, language, card }) {
    if (!lesson) return;
    whenThere(
      () => this.#version,
      () => this.show(lesson, this.#inLanguage(lesson, language ?? spoken()).language, card),
    );
  }

  refuse(error) {
    this.#told(error, true);
    this.#begin();
  }

  #told(words, bad = false) {
    this.note.textContent = words;
    this.note.className = bad ? "dp-status bad" : "dp-status";
  }

  async #open(file) {
    const [chosen] = file.files;
    file.value = "";
    if (!chosen) return;
    if (chosen.size > 4 * MOST) return this.refuse(tr("A lesson has 100,000 characters at most."));
    const text = await chosen.text();
    press(KEY, (more) => this.#trigger("input", { text, ...more }));
  }

  #say(activity) {
    if (activity) this.#told(said(activity.says), activity.phase === "stopped");
  }

  receive(text) {
    if (!text) return;
    const { kind, says, error, lesson } = JSON.parse(text);
    store.heard = performance.now();
    if (kind === "progress")
      return store.goesOn({ strategy: KEY, run: "", phase: "decoding", says });
    store.act(KEY, null);
    if (kind === "failed") return this.refuse(said(error));
    this.#told("");
    this.#showLesson({ ...lesson, itself: false }, 1);
  }

  // Add the handout before printing: questions first, then the answers.
  #unfold(root) {
    if (!this.#view || !root.getClientRects().length) return;
    this.#sheet = handout(this.#view.lesson, { ...this.#place, more: [] });
    this.shell.append(this.#sheet.node);
    this.#sheet.draw();
    document.documentElement.classList.add("ls-printing");
  }

  #fold() {
    this.#sheet?.node.remove();
    this.#sheet = null;
    document.documentElement.classList.remove("ls-printing");
  }
}

export const mountLessons = (root, trigger) => new LessonsTab(root, trigger);
