// The blind taste test: ten votes on pairs of texts, then the strategies that wrote them.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { parseMessage, said } from "../../../visualizers/shared/server_text.mjs";
import { makeVisible } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Field } from "../forms/field.mjs";
import { PromptField } from "../forms/prompt_field.mjs";
import { createStrategyForm } from "../forms/strategy_form.mjs";
import { beginJob, createJobButtons, receiveProgress } from "../jobs/job.mjs";
import { fetchRecorded } from "../runs/recorded_runs.mjs";
import { registerLink } from "../shell/address.mjs";
import { registerOtherTab } from "../shell/other_tabs.mjs";
import { store } from "../shell/page_state.mjs";
import { getDeclaration } from "../shell/spec.mjs";
import { mountLayout } from "../shell/tab_layout.mjs";
import { createResult } from "./taste_chart.mjs";
import { drawPairs, PAIRS_PER_ROUND, shuffleSides } from "./taste_votes.mjs";
import { createVotePair, findVote } from "./vote_pair.mjs";

/** @typedef {import("./taste_votes.mjs").Pair} Pair */
/** @typedef {import("./taste_votes.mjs").Side} Side */
/** @typedef {import("./taste_votes.mjs").Voted} Voted */
/** @typedef {import("./taste_votes.mjs").Written} Written */
/** @typedef {{ prompt: string, texts: Written[] }} RecordedPrompt */

const KEY = "taste";
const STORAGE_KEY = "dp-taste";
const ABOUT = tr(
  "Two strategies continued the same prompt. Read both, say which one you like better, and see after ten pairs which they were. Your votes stay in this browser.",
);
const LIVE_NOTE = tr(
  "Or let two strategies of your choice continue a prompt of yours: what they write is one more pair, on sides that chance chooses.",
);
const INITIAL_FORMS = [
  { strategy: "greedy", params: {} },
  { strategy: "sampling", params: { temperature: 0.7, top_k: 0, top_p: 0.9 } },
];

// A browser may forbid storage, and stored data may be malformed: both give an empty list.
function loadVotes() {
  try {
    const kept = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "[]");
    /** @param {any} v */
    const whole = (v) => [0, 1, null].includes(v?.vote) && v.texts?.length === 2;
    return Array.isArray(kept) ? kept.filter(whole).slice(0, PAIRS_PER_ROUND) : [];
  } catch {
    return [];
  }
}

/** @param {Voted[]} votes */
function saveVotes(votes) {
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(votes));
  } catch {
    // Without storage the votes are lost when the page is reloaded.
  }
}

class TasteTab {
  /** @type {Voted[]} */
  #votes = loadVotes();
  /** @type {Pair[]} the remaining pairs; the first one is shown */
  #pairs = [];
  /** @type {RecordedPrompt[]} */
  #recorded = [];

  /**
   * @param {HTMLElement} root
   * @param {Context["trigger"]} trigger
   */
  constructor(root, trigger) {
    this.trigger = trigger;
    this.say = el("p", { class: "dp-status", role: "status" });
    this.box = el("div", { class: "ts-box" });
    this.last = el("p", { class: "dp-note ts-last-vote", "aria-live": "polite" });
    const stage = el("div", { id: "taste-stage", class: "dp-stage ts-stage" });
    stage.append(this.say, this.box, this.last);
    this.prompt = new PromptField("taste-prompt", {
      prompt: getDeclaration().taste.prompt,
      go: () => this.#requestPair(),
      models: () => this.forms.map((form) => form.ask().model),
      forms: () => this.forms.map((form) => form.parts.form),
      chat: false,
    });
    this.forms = INITIAL_FORMS.map((start, i) =>
      createStrategyForm(tr("text {n}", { n: i + 1 }), start, () => {}),
    );
    this.seed = new Field(getDeclaration().seed, "taste-seed");
    this.seed.value = 0;
    const buttons = createJobButtons(KEY, tr("Write two"), () => this.#requestPair());
    const acts = el("div", { class: "f-acts" }, buttons);
    mountLayout(root, tr("Blind taste test"), ABOUT, {
      ask: [el("p", { class: "dp-note" }, LIVE_NOTE), this.prompt.box, acts],
      right: stage,
      settings: [this.seed.box, ...this.forms.map((form) => form.box)],
    });
    root.addEventListener("keydown", (event) => this.#handleKey(event));
    store.watch({
      active: (key) => key === KEY && this.#showStatus(store.activity(KEY)?.says ?? ""),
    });
    registerOtherTab("taste", { restore() {}, refuse: (error) => this.#showStatus(error, true) });
    registerLink(root, () => "?tab=taste");
    this.#loadPairs().catch(() => this.#drawPair());
  }

  async #loadPairs() {
    /** @type {{ prompts: RecordedPrompt[] }} */
    const { prompts } = await fetchRecorded("taste");
    this.#recorded = prompts;
    const seen = new Set(this.#votes.map(({ prompt }) => prompt));
    const fresh = prompts.filter(({ prompt }) => !seen.has(prompt));
    this.#pairs.push(...drawPairs(fresh.length ? fresh : prompts, Math.random));
    this.#drawPair();
  }

  /** @param {string} sentence */
  #showStatus(sentence, bad = false) {
    this.say.className = `dp-status${bad ? " bad" : ""}${store.busy(KEY) ? " busy" : ""}`;
    const words = said(sentence);
    if (this.say.textContent !== words) this.say.textContent = words;
  }

  #drawPair() {
    if (this.#votes.length >= PAIRS_PER_ROUND) return this.#drawResult();
    const [pair] = this.#pairs;
    if (!pair) return this.box.replaceChildren();
    const had = this.box.contains(document.activeElement);
    /** @param {Written} written */
    const text = ({ text }) => [
      el("span", { class: "dp-prompt" }, makeVisible(pair.prompt ?? "")),
      text,
    ];
    const [title, ...rest] = createVotePair({
      level: "h3",
      number: this.#votes.length + 1,
      total: PAIRS_PER_ROUND,
      texts: [text(pair.texts[0]), text(pair.texts[1])],
      vote: (side) => this.#castVote(side),
    });
    this.box.replaceChildren(title, ...rest);
    if (had) title.focus({ preventScroll: true });
  }

  /** @param {Side | null} vote */
  #castVote(vote) {
    const pair = this.#pairs.shift();
    if (!pair) return;
    this.#votes.push({ ...pair, vote });
    saveVotes(this.#votes);
    const one = vote ? tr("the right one") : tr("the left one");
    // The strategies stay hidden until the end: knowing one would bias the next votes.
    this.last.textContent = tr("Pair {n}: {vote}. You learn what they were after {total} pairs.", {
      n: this.#votes.length,
      vote: vote === null ? tr("no difference") : one,
      total: PAIRS_PER_ROUND,
    });
    this.#drawPair();
  }

  #drawResult() {
    this.last.textContent = "";
    const title = el("h3", { class: "ts-title", tabindex: -1 }, tr("What your ten votes came to"));
    const again = createButton(tr("Ten more pairs"), () => this.#startRound(), { class: "dp-btn" });
    const had = this.box.contains(document.activeElement);
    this.box.replaceChildren(
      title,
      ...createResult(this.#votes),
      el("div", { class: "dp-row" }, again),
    );
    if (had) title.focus({ preventScroll: true });
  }

  #startRound() {
    this.#votes = [];
    saveVotes([]);
    this.#pairs = drawPairs(this.#recorded, Math.random);
    this.#drawPair();
  }

  /** @param {KeyboardEvent} event */
  #handleKey(event) {
    if (this.#votes.length >= PAIRS_PER_ROUND || !this.#pairs.length) return;
    const vote = findVote(event);
    if (vote === undefined) return;
    event.preventDefault();
    this.#castVote(vote);
  }

  #requestPair() {
    const asked = {
      prompt: this.prompt.area.value,
      seed: this.seed.value,
      columns: this.forms.map((form) => form.ask()),
    };
    beginJob(KEY, (more) => this.trigger("input", { ...asked, ...more }));
  }

  /** @param {string} text a message of the server, as JSON */
  receive(text) {
    if (!text) return;
    const message = parseMessage(text);
    receiveProgress(KEY, message);
    if (message.kind === "pair") this.#addPair(message.pair);
    if (message.error && !message.stopped) this.#showStatus(message.error, true);
  }

  /**
   * Show the visitor's own pair before the recorded ones.
   * @param {Pair} pair
   */
  #addPair(pair) {
    if (this.#votes.length >= PAIRS_PER_ROUND) this.#startRound();
    if (pair.texts[0].text === pair.texts[1].text)
      return this.#showStatus(
        tr(
          "Both wrote the same text, so there is nothing to choose. Try another prompt or other settings.",
        ),
      );
    this.#pairs.unshift(shuffleSides(pair, Math.random));
    this.last.textContent = "";
    this.#drawPair();
    this.#showStatus(tr("Both texts are there."));
  }
}

/**
 * @param {HTMLElement} root
 * @param {Context["trigger"]} trigger
 */
export const mountTaste = (root, trigger) => new TasteTab(root, trigger);
