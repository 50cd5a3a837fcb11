// Shows the selected step under the settings of the form, while they differ from those of the run.
// The page decides the step by itself where it can, else the server does.

import { moveOffEdge } from "../../../visualizers/dial_map/intervals.mjs";
import { isOnServer } from "../../../visualizers/shared/record.mjs";
import { formatSetting } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { isSameValue } from "../forms/settings.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { stages, store } from "../shell/page_state.mjs";
import { decideStep } from "./decide_step.mjs";
import { DialMaps } from "./dial_maps.mjs";
import { DialTrack } from "./dial_track.mjs";
import { SAMPLING_FILTERS } from "./sampling_filters.mjs";
import { StepScoresCache } from "./step_scores.mjs";
import { addPieces, askWhatIf } from "./what_if_questions.mjs";

const ASK_INTERVAL_MS = 50;
const FIRST_PAUSE_MS = 200;
// How long the picture of the settings before may stay while an answer is on its way.
const LATE_MS = 150;
const NO_STEP = -1;
const SETTINGS_CHANGED = tr("Settings changed");
const PAGE_PARAMETERS = SAMPLING_FILTERS.map(({ parameter }) => parameter);
// The scores may cost the server a pass, so nobody gets them who does not reach for a dial.
const FIRST_SIGNS = ["pointerenter", "pointerdown", "focusin", "keydown"];

/** @import { Decision, StepScores } from "./decide_step.mjs" */
/** @typedef {import("../shell/spec.mjs").StrategySpec} StrategySpec */

/**
 * A parameter that differs from the run's, with its value in the form.
 * @typedef {{ name: string, label: string, value: any }} Changed
 */

/**
 * Return the parameters whose values differ from those of a run and may change a step: the dials, and
 * those that the server can decide a step with.
 * @param {StrategySpec} strategy
 * @param {Record<string, any>} own
 * @param {Record<string, any>} values
 * @returns {Changed[]}
 */
export const changedParameters = ({ params, dials, what_if }, own, values) =>
  params
    .filter(({ name }) => dials.includes(name) || what_if.params.includes(name))
    .filter(({ name }) => !isSameValue(values[name], own[name]))
    .map(({ name, label }) => ({ name, label, value: values[name] }));

/**
 * Return what was changed, for a sentence: the value alone if it is one parameter.
 * @param {Changed[]} changed
 */
export function settingText(changed) {
  /** @param {any} value */
  const text = (value) => (typeof value === "number" ? formatSetting(value) : String(value));
  if (changed.length === 1 && changed[0].value !== "") return text(changed[0].value);
  return changed.map(({ label, value }) => `${label} ${text(value) || "–"}`).join(", ");
}

/**
 * Return the server's answer as a preview.
 * @param {any} answer to the question what_if
 * @param {number} step
 * @param {string} setting
 * @returns {Preview}
 */
export function previewFromAnswer(answer, step, setting) {
  if (answer.error || answer.source === "recorded") return stalePreview(step, setting);
  const rows = answer.options.map((/** @type {any} */ { id, raw, used, removed }) => ({
    ...{ token_id: id, own: raw, used, removed },
  }));
  return {
    ...{ step, rows, setting, first: null, stale: false },
    rest_own: answer.rest.raw,
    rest_used: answer.rest.used,
    chosen: answer.same_luck ? answer.token : null,
    needle: null,
  };
}

/**
 * Return the preview of a step that only a run can show.
 * @param {number} step
 * @param {string} setting
 * @returns {Preview}
 */
const stalePreview = (step, setting) => ({
  ...{ step, setting, rows: [], rest_own: 1, rest_used: 1 },
  ...{ chosen: null, needle: null, first: null, stale: true },
});

/**
 * Return the first token that differs from the run's text, with the rest of the new text.
 * @param {import("../../../visualizers/dial_map/intervals.mjs").Place} place
 * @returns {Preview["first"]}
 */
function toFirst({ first, interval: { token_ids, end } }) {
  if (first === null) return null;
  const found = { step: first, token_id: token_ids[first], known: true };
  return end === "cut" ? found : { ...found, rest: token_ids.slice(first + 1) };
}

export class DialPreview {
  #strategy;
  #form;
  #scores = new StepScoresCache();
  #decision = new StoppableQuestion({ latestOnly: true });
  #first = new StoppableQuestion({ latestOnly: true });
  #touched = false;
  // Whether the step is decided as soon as its scores are there.
  #waiting = false;
  /** @type {object | null} */
  #expected = null;
  #frame = 0;
  #askTimer = 0;
  #firstTimer = 0;
  #askedAt = Number.NEGATIVE_INFINITY;
  #place = "";
  /** @type {{ scores: StepScores, decision: Decision | null } | null} under the run's own settings */
  #own = null;
  /** @type {Preview | null} */
  #shown = null;
  #maps = new DialMaps(() => {
    this.updateTracks();
    if (this.#touched) this.#touch();
  });
  /** @type {Map<string, DialTrack>} by parameter */
  #tracks = new Map();
  /** @type {Preview["first"] | undefined} of the map; undefined where the text is not known */
  #mapped;

  /**
   * @param {StrategySpec} strategy
   * @param {import("../forms/form.mjs").Form} form
   */
  constructor(strategy, form) {
    this.#strategy = strategy;
    this.#form = form;
    for (const box of [form.dials, form.box]) box.addEventListener("input", () => this.#touch());
    for (const sign of FIRST_SIGNS) form.dials.addEventListener(sign, () => this.#fetchScores());
    if (strategy.what_if.in_page) this.#addTracks();
    store.watch({ changed: (run) => run.id === store.runId(strategy.name) && this.#follow(run) });
  }

  #addTracks() {
    for (const name of this.#strategy.dials) {
      const input = this.#form.dials.querySelector(`[data-param="${name}"]`);
      /** @type {HTMLInputElement | null | undefined} */
      const slider = input?.closest(".f-field")?.querySelector("input[type=range]");
      if (!slider) continue;
      const track = new DialTrack(slider);
      this.#tracks.set(name, track);
      for (const sign of FIRST_SIGNS)
        track.box.addEventListener(sign, () => this.#fetchMap(this.#run, name));
    }
  }

  /**
   * @param {Run | null} run
   * @param {string} dial
   */
  #fetchMap(run, dial) {
    if (run?.status === "finished" || run?.entry) this.#maps.fetch(run, dial);
  }

  /** Draw the tracks for the values of the form; a map holds while only its dial has changed. */
  updateTracks() {
    const run = this.#run;
    const values = this.#form.values();
    const changed = run ? changedParameters(this.#strategy, run.form.values, values) : [];
    this.#mapped = undefined;
    for (const [name, track] of this.#tracks) {
      const own = run?.outputs[0]?.token_ids ?? [];
      const holds = run && changed.every((one) => one.name === name);
      const map = holds ? this.#maps.get(run, name) : null;
      const place = track.show(map, own, Number(values[name]), `${run?.id}:${name}`);
      if (place && changed.length) this.#mapped = toFirst(place);
    }
  }

  /** Move a dial off an edge of its map, where a run may write either text. */
  moveOffEdges() {
    const run = this.#run;
    if (!run) return;
    const values = this.#form.values();
    for (const { name, value } of changedParameters(this.#strategy, run.form.values, values)) {
      const map = this.#maps.get(run, name);
      const moved = map && moveOffEdge(map, Number(value));
      if (moved && moved !== value) this.#form.take({ [name]: Number(moved.toPrecision(6)) });
    }
  }

  /** Show the step as it was recorded, until a dial moves. */
  clear() {
    this.#touched = false;
    this.#cancel();
    this.#show(null);
    this.#markRun(false);
    this.updateTracks();
  }

  #touch() {
    this.#touched = true;
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#decide();
    });
  }

  // The run shown, if its selected step can be decided.
  get #run() {
    const run = store.shown(this.#strategy.name);
    // Of a server's step, only a part of the distribution is known, or it cannot be asked for again.
    const whole = run?.form && !isOnServer(run);
    return whole && run.status !== "running" && run.steps[run.selected ?? -1] ? run : null;
  }

  /** @param {Run} run */
  #follow(run) {
    const place = `${run.id}:${run.selected}:${run.status}`;
    if (place === this.#place) return;
    const other = !this.#place.startsWith(`${run.id}:`);
    this.#place = place;
    if (other || run.status === "running") this.clear();
    if (run.status !== "running" && this.#tracks.size)
      this.#fetchMap(this.#run, this.#strategy.dials[0]);
    if (other || run.status === "running") return this.updateTracks();
    if (this.#touched) {
      this.#cancel();
      this.#show(null);
      this.#touch();
    }
  }

  // Return the scores of the step shown; see StepScoresCache.get.
  #fetchScores() {
    const run = this.#run;
    if (!run || !this.#strategy.what_if.in_page) return null;
    return this.#scores.get(run, run.selected ?? 0, () => this.#waiting && this.#decide());
  }

  #cancel() {
    this.#waiting = false;
    clearTimeout(this.#askTimer);
    clearTimeout(this.#firstTimer);
    this.#decision.forget();
    this.#first.forget();
  }

  #decide() {
    const run = this.#run;
    if (!run || !this.#touched) return;
    this.#cancel();
    const own = run.form.values;
    const changed = changedParameters(this.#strategy, own, this.#form.values());
    this.#markRun(changed.length > 0);
    this.updateTracks();
    if (!changed.length) return this.#show(null);
    const step = run.selected ?? 0;
    const setting = settingText(changed);
    const offered = this.#strategy.what_if.params;
    if (!changed.every(({ name }) => offered.includes(name)))
      return this.#show(stalePreview(step, setting));
    const params = Object.fromEntries(changed.map(({ name, value }) => [name, value]));
    const inPage = changed.every(({ name }) => PAGE_PARAMETERS.includes(name));
    const scores = inPage ? this.#fetchScores() : null;
    // The scores are on their way: the step would be a guess until then, but the map knows the text.
    this.#waiting = scores === undefined;
    if (scores === undefined) {
      this.#showMapped(setting);
      return this.#expectAnswer(step, setting);
    }
    const decision = scores && this.#decideInPage(run, scores, { ...own, ...params });
    if (!decision) {
      this.#expectAnswer(step, setting);
      return this.#scheduleQuestion(run, step, setting, params);
    }
    this.#show({ ...decision, step, setting, first: this.#mapped ?? null, stale: false });
    this.#scheduleFirst(run, step, params);
  }

  /**
   * @param {Run} run
   * @param {StepScores} scores
   * @param {Record<string, any>} values
   */
  #decideInPage(run, scores, values) {
    const recorded = run.steps[run.selected ?? 0].emit[0];
    if (this.#own?.scores !== scores) {
      addPieces(run, scores.pieces);
      this.#own = { scores, decision: decideStep(scores, run.form.values, recorded) };
    }
    const decision = this.#own.decision && decideStep(scores, values, recorded);
    // The draw can be repeated only if the run's own settings give its own token.
    const repeated = this.#own.decision?.chosen === recorded;
    return repeated ? decision : decision && { ...decision, chosen: null, needle: null };
  }

  /**
   * Say that the step is being decided, unless something is shown soon.
   * @param {number} step
   * @param {string} setting
   */
  #expectAnswer(step, setting) {
    if (this.#expected) return;
    const expected = {};
    this.#expected = expected;
    setTimeout(() => {
      if (this.#expected === expected)
        this.#show({
          ...stalePreview(step, setting),
          first: this.#mapped ?? null,
          pending: true,
        });
    }, LATE_MS);
  }

  /**
   * Show the text of the map, while the step stays as it was recorded.
   * @param {string} setting
   */
  #showMapped(setting) {
    if (this.#mapped)
      this.#show({ ...stalePreview(NO_STEP, setting), first: this.#mapped, stale: false });
  }

  /** @param {Preview | null} preview */
  #show(preview) {
    this.#expected = null;
    this.#shown = preview;
    stages.setPreview(this.#strategy.name, preview);
  }

  /**
   * Mark the Run button while a run would change the step shown.
   * @param {boolean} changed
   */
  #markRun(changed) {
    const button = document.getElementById(`${this.#strategy.name}-run`);
    button?.classList.toggle("f-changed", changed);
    if (changed) button?.setAttribute("aria-description", SETTINGS_CHANGED);
    else button?.removeAttribute("aria-description");
  }

  /**
   * @param {Run} run
   * @param {number} step
   * @param {string} setting
   * @param {Record<string, any>} params
   */
  #scheduleQuestion(run, step, setting, params) {
    const pause = this.#askedAt + ASK_INTERVAL_MS - performance.now();
    this.#askTimer = window.setTimeout(
      async () => {
        this.#askedAt = performance.now();
        const answer = await this.#decision.ask((press) =>
          askWhatIf(run, { action: "what_if", step, params, press }),
        );
        if (!answer) return;
        addPieces(run, answer.pieces);
        const preview = previewFromAnswer(answer, step, setting);
        this.#show({ ...preview, first: this.#mapped ?? null });
        if (!preview.stale) this.#scheduleFirst(run, step, params);
      },
      Math.max(0, pause),
    );
  }

  /**
   * Look for the first word of the text that would change, once the dial rests.
   * @param {Run} run
   * @param {number} step
   * @param {Record<string, any>} params
   */
  #scheduleFirst(run, step, params) {
    if (this.#mapped !== undefined) return;
    this.#firstTimer = window.setTimeout(async () => {
      const found = await this.#first.ask((press) =>
        askWhatIf(run, { action: "what_if_first", step, params, press }),
      );
      if (!found?.first || !this.#shown) return;
      addPieces(run, found.pieces);
      const { step: at, token } = found.first;
      this.#show({ ...this.#shown, first: { step: at, token_id: token, known: true } });
    }, FIRST_PAUSE_MS);
  }
}
