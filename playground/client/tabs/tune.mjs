// The tune tab: a table of prompts, settings and seeds, ranked by a measure that the visitor chooses.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { parseMessage, said } from "../../../visualizers/shared/server_text.mjs";
import { formatDuration } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { beginJob, createJobButtons, receiveProgress } from "../jobs/job.mjs";
import { buildFormLink, registerLink } from "../shell/address.mjs";
import { randomId } from "../shell/ids.mjs";
import { registerOtherTab } from "../shell/other_tabs.mjs";
import { store } from "../shell/page_state.mjs";
import { askWhenReady } from "../shell/questions.mjs";
import { getDeclaration } from "../shell/spec.mjs";
import { TunePlan } from "./tune_plan.mjs";
import { TuneTable } from "./tune_table.mjs";
import { TuneVotes } from "./tune_votes.mjs";

const KEY = "tune";
const ASK_AFTER_MS = 400;

class TuneTab {
  /** @type {Record<string, any> | null} the form of the table shown, with its id */
  #latest = null;
  /** @type {Record<string, any> | null} the form of a link that waits for Run, with its table */
  #linked = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  // Number of the latest question about the plan; only its answer is shown.
  #asked = 0;
  // Whether the note says what is wrong with the plan.
  #isRefused = false;

  /**
   * @param {HTMLElement} root
   * @param {Context["trigger"]} trigger
   */
  constructor(root, trigger) {
    this.trigger = trigger;
    this.plan = new TunePlan(getDeclaration().tune, () => this.#askLater());
    this.table = new TuneTable();
    this.votes = new TuneVotes(
      () => this.table.texts,
      (votes) => this.#countVotes(votes),
    );
    this.votes.box.hidden = true;
    this.note = el("p", { class: "dp-status", role: "status" });
    this.cost = el("span", { class: "tn-cost", "aria-live": "polite" });
    const buttons = createJobButtons(KEY, tr("Run the table"), () => this.#run());
    this.go = buttons[0];
    root.replaceChildren(
      el(
        "div",
        { class: "dp-compare tn-tab" },
        el("h2", { class: "tn-title" }, tr("Which settings suit your prompts?")),
        this.plan.box,
        el("div", { class: "tn-acts" }, this.table.order, this.cost, buttons),
        this.note,
        this.table.box,
        this.votes.box,
      ),
    );
    store.watch({ active: (key) => key === KEY && this.#say(store.activity(KEY)?.says ?? "") });
    registerOtherTab(KEY, {
      restore: ({ form }, itself) => {
        if (!form) return;
        this.plan.show(form);
        if (itself) this.#run(form);
        else this.#linked = form;
      },
      refuse: (error) => this.#say(error, true),
    });
    registerLink(root, () => (this.#latest ? buildFormLink(KEY, this.#latest) : `?tab=${KEY}`));
    this.#askLater();
  }

  /** @param {Record<string, any>} [linked] the form of the address, whose table may exist already */
  #run(linked) {
    const wanted = linked ?? this.#tableFor(this.plan.ask());
    this.#latest = wanted;
    beginJob(
      KEY,
      (more) => this.trigger("input", { ...wanted, ...more }),
      buildFormLink(KEY, wanted),
      {
        linked: linked !== undefined,
      },
    );
  }

  /**
   * Return a plan with its table: that of the link, if the plan is still that of the link.
   * @param {Record<string, any>} plan
   */
  #tableFor(plan) {
    const linked = this.#linked;
    const same = linked && JSON.stringify({ ...linked, ...plan }) === JSON.stringify(linked);
    return same ? linked : { ...plan, table: randomId() };
  }

  #askLater() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#askCost(), ASK_AFTER_MS);
  }

  async #askCost() {
    const number = ++this.#asked;
    const found = await askWhenReady({ action: "tune_plan", ...this.plan.ask() });
    if (number !== this.#asked) return;
    this.go.textContent = found.error
      ? tr("Run the table")
      : tr("Run {n} texts", { n: found.runs });
    this.cost.textContent = found.error ? "" : costText(found);
    // A plan that is valid again takes back its own error, and no other sentence.
    if (!store.busy(KEY) && (found.error || this.#isRefused))
      this.#say(found.error ?? "", Boolean(found.error));
    this.#isRefused = Boolean(found.error);
  }

  /** @param {string} sentence */
  #say(sentence, bad = false) {
    this.note.className = `dp-status${bad ? " bad" : ""}${store.busy(KEY) ? " busy" : ""}`;
    const words = said(sentence);
    if (this.note.textContent !== words) this.note.textContent = words;
  }

  /** @param {string} text a message of the server, as JSON */
  receive(text) {
    if (!text) return;
    const message = parseMessage(text);
    receiveProgress(KEY, message);
    if (message.kind === "plan") this.table.begin(message);
    if (message.view) this.table.fill(message);
    if (message.kind === "done") this.#end(message);
    if (message.error && !message.stopped) this.#say(message.error, true);
  }

  /** @param {{ done: number, all: number }} message */
  #end({ done, all }) {
    this.#askLater();
    this.votes.open(this.#latest?.table ?? "", this.table.names);
    if (done === all) return this.#say("");
    const goOn = createButton(tr("Go on"), () => this.#latest && this.#goOn(this.#latest));
    this.#say(tr("{done} of {all} texts are there.", { done, all }));
    this.note.append(" ", goOn);
  }

  /** @param {import("./tune_votes.mjs").TuneVote[]} votes */
  async #countVotes(votes) {
    const asked = this.#latest;
    if (!asked) return;
    const counted = votes.map(({ prompt, pair, preferred }) => ({ prompt, pair, preferred }));
    const found = await askWhenReady({ ...asked, action: "tune_votes", votes: counted });
    if (asked !== this.#latest) return;
    if (found.error) return this.#say(found.error, true);
    this.table.addVotes(found.measure);
  }

  // The same table: what it has is not run again.
  /** @param {Record<string, any>} wanted */
  #goOn(wanted) {
    beginJob(
      KEY,
      (more) => this.trigger("input", { ...wanted, ...more }),
      buildFormLink(KEY, wanted),
    );
  }
}

/** @param {{ seconds: number | null, on_server: boolean }} found */
function costText({ seconds, on_server }) {
  if (on_server) return tr("The server decides how long it takes.");
  return seconds === null
    ? tr("How long it takes is known after the first run.")
    : tr("about {time}", { time: formatDuration(seconds) });
}

/**
 * @param {HTMLElement} root
 * @param {Context["trigger"]} trigger
 */
export const mountTune = (root, trigger) => new TuneTab(root, trigger);
