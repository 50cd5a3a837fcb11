// Blind votes between two settings of a table: a pair of its texts at a time, without their names.
// The votes stay in the browser; the server counts those that a question brings.
import { createButton, createScroller, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { makeVisible } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { createAsked } from "../../../visualizers/text/chat_turns.mjs";
import { shuffleList, shuffleSides } from "./taste_votes.mjs";
import { createVotePair, findVote } from "./vote_pair.mjs";

/** @typedef {import("./tune_table.mjs").TuneCell} TuneCell */
/** @typedef {import("./tune_table.mjs").TunePrompt} TunePrompt */
/** @typedef {{ prompt: number, seed: number, pair: [number, number], preferred: number | null }} TuneVote */
/** @typedef {{ prompt: number, seed: number, texts: [TuneCell, TuneCell] }} TunePair left, right */

const STORAGE_KEY = "dp-tune-votes";
const MAX_TABLES = 10;

/**
 * Return the pairs of texts of two settings that can be voted on, in random order and on random sides:
 * same prompt and seed, different texts, not voted on before.
 * @param {Iterable<TuneCell>} cells
 * @param {boolean[]} random for each setting, whether its texts depend on the seed
 * @param {[number, number]} pair
 * @param {TuneVote[]} votes
 * @param {() => number} draw returns a number in [0, 1)
 * @returns {TunePair[]}
 */
export function listPairs(cells, random, pair, votes, draw) {
  const all = [...cells].filter(({ error, text }) => !error && text);
  const [a, b] = pair.map((setting) => all.filter((cell) => cell.setting === setting));
  const done = new Set(
    votes
      .filter((one) => isSamePair(one.pair, pair))
      .map(({ prompt, seed }) => `${prompt}-${seed}`),
  );
  const found = a.flatMap((one) => {
    // A setting without chance has one text for every seed.
    const others = b.filter(
      (other) =>
        other.prompt === one.prompt &&
        (!random[pair[0]] || !random[pair[1]] || other.seed === one.seed),
    );
    return others.map(
      (other) =>
        /** @type {TunePair} */ ({
          prompt: one.prompt,
          seed: random[pair[0]] ? one.seed : other.seed,
          texts: [one, other],
        }),
    );
  });
  const open = found.filter(
    ({ prompt, seed, texts }) => texts[0].text !== texts[1].text && !done.has(`${prompt}-${seed}`),
  );
  return shuffleList(open, draw).map((one) => shuffleSides(one, draw));
}

/**
 * @param {number[]} a
 * @param {number[]} b
 */
const isSamePair = (a, b) => a.includes(b[0]) && a.includes(b[1]);

/**
 * Return the stored votes by table; none if the browser forbids storage or they are malformed.
 * @returns {[string, TuneVote[]][]}
 */
function loadAll() {
  try {
    const kept = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => Array.isArray(one?.[1])) : [];
  } catch {
    return [];
  }
}

/** @param {string} table id of a table */
export const loadVotes = (table) => loadAll().find(([id]) => id === table)?.[1] ?? [];

/**
 * @param {string} table
 * @param {TuneVote[]} votes
 */
export function saveVotes(table, votes) {
  const others = loadAll().filter(([id]) => id !== table);
  try {
    localStorage.setItem(
      STORAGE_KEY,
      JSON.stringify([[table, votes], ...others.slice(0, MAX_TABLES - 1)]),
    );
  } catch {
    // Without storage the votes are lost when the page is reloaded.
  }
}

/**
 * The prompt that both texts of a pair answer.
 * @param {TunePrompt} prompt
 */
export function createPrompt(prompt) {
  const name = tr("Prompt");
  const shown = createScroller(name, createAsked(prompt));
  return el("div", { class: "tn-asked" }, el("h4", {}, name), shown);
}

export class TuneVotes {
  #table = "";
  /** @type {TuneVote[]} */
  #votes = [];
  /** @type {TunePair[]} the first one is shown */
  #pairs = [];
  /** @type {TunePrompt[]} */
  #prompts = [];
  #voted = 0;
  /** @type {string[]} names of the settings */
  #names = [];
  #read;
  #changed;

  /**
   * @param {() => { prompts: TunePrompt[], cells: Iterable<TuneCell>, random: boolean[] }} read what the table has
   * @param {(votes: TuneVote[]) => void} changed called with all votes once a round ends
   */
  constructor(read, changed) {
    this.#read = read;
    this.#changed = changed;
    this.first = el("select", { "aria-label": tr("First setting") });
    this.second = el("select", { "aria-label": tr("Second setting") });
    this.go = createButton(tr("Vote blind"), () => this.#begin(), { class: "dp-btn tn-vote" });
    this.pair = el("div", { class: "tn-blind" });
    this.note = el("p", { class: "dp-note", "aria-live": "polite" });
    const line = el("div", { class: "tn-line" }, this.first, this.second, this.go);
    this.box = el("section", { class: "tn-votes", "aria-label": tr("Blind votes") });
    this.box.append(el("h3", {}, tr("Which of two settings do you prefer?")), line);
    this.box.append(this.note, this.pair);
    this.box.addEventListener("keydown", (event) => this.#handleKey(event));
  }

  /**
   * Offer the settings of a table, and tell its stored votes.
   * @param {string} table id of the table
   * @param {string[]} names of its settings
   */
  open(table, names) {
    this.box.hidden = names.length < 2;
    if (table === this.#table && names.join() === this.#names.join()) return;
    this.#table = table;
    this.#votes = loadVotes(table);
    this.#names = names;
    for (const [place, select] of [this.first, this.second].entries()) {
      select.replaceChildren(...names.map((name, i) => el("option", { value: i }, said(name))));
      select.value = String(place);
    }
    this.#close();
    this.note.textContent = tr(
      "You read a text of each, without their names. Your votes stay in this browser.",
    );
    if (this.#votes.length) this.#changed(this.#votes);
  }

  #begin() {
    /** @type {[number, number]} */
    const pair = [Number(this.first.value), Number(this.second.value)];
    if (pair[0] === pair[1]) {
      this.note.textContent = tr("Choose two different settings.");
      return;
    }
    const { prompts, cells, random } = this.#read();
    this.#prompts = prompts;
    this.#pairs = listPairs(cells, random, pair, this.#votes, Math.random);
    this.#voted = 0;
    if (!this.#pairs.length) {
      this.note.textContent = tr(
        "There are no two different texts of these settings left to compare.",
      );
      return;
    }
    this.note.textContent = "";
    this.#draw();
  }

  #draw() {
    const [shown] = this.#pairs;
    if (!shown) return this.#finish();
    const [left, right] = shown.texts;
    const [title, ...rest] = createVotePair({
      level: "h4",
      number: this.#voted + 1,
      total: this.#voted + this.#pairs.length,
      texts: [makeVisible(left.text), makeVisible(right.text)],
      vote: (side) => this.#vote(side),
      more: createButton(tr("Show the result"), () => this.#finish()),
    });
    this.pair.replaceChildren(title, createPrompt(this.#prompts[shown.prompt]), ...rest);
    title.focus({ preventScroll: true });
  }

  /** @param {0 | 1 | null} side */
  #vote(side) {
    const shown = this.#pairs.shift();
    if (!shown) return;
    const { prompt, seed, texts } = shown;
    const preferred = side === null ? null : texts[side].setting;
    this.#votes.push({ prompt, seed, pair: [texts[0].setting, texts[1].setting], preferred });
    this.#voted += 1;
    saveVotes(this.#table, this.#votes);
    this.#draw();
  }

  // Only now: a count after every vote would sway the next one.
  #finish() {
    const had = this.pair.contains(document.activeElement);
    this.#close();
    this.note.textContent = tr("Your votes are in the table.");
    this.#changed(this.#votes);
    if (had) this.go.focus({ preventScroll: true });
  }

  #close() {
    this.#pairs = [];
    this.pair.replaceChildren();
  }

  /** @param {KeyboardEvent} event */
  #handleKey(event) {
    const vote = this.#pairs.length ? findVote(event) : undefined;
    if (vote === undefined) return;
    event.preventDefault();
    this.#vote(vote);
  }
}
