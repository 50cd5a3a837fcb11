// View of the processors in their order: what each removed, kept and changed.
import { createTable, el } from "../shared/dom.mjs";
import { processorTitle } from "../shared/processors.mjs";
import { StepView } from "../shared/step_view.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatCount, formatFixed, formatPercent, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

const MAX_NAMED = 3;
const COLUMNS = [
  tr("[processor]"),
  tr("removed here"),
  tr("tokens left"),
  tr("[probability kept|kept]"),
  tr("[entropy], [bit|bits]"),
];

/**
 * Name of a processor, with up to three of the recorded tokens that it removed.
 * @param {Run} run
 * @param {Step} step
 * @param {string} name
 * @param {number} count
 */
function createProcessorName(run, step, name, count) {
  const gone = step.candidates.filter((c) => c.removed_by === name).slice(0, MAX_NAMED);
  const names = gone.map((c) => tokenLabel(run, c.token_id)).join(" ");
  const more = gone.length < count ? " …" : "";
  return [
    processorTitle(name),
    ...(name === "DRY" ? createRepeats(run, step) : []),
    ...createStates(run, step, name, count),
    names ? el("small", { class: "dp-removed-tokens" }, names + more) : null,
  ];
}

/**
 * What DRY did: which recorded tokens would continue a repeat, and its penalty.
 * @param {Run} run
 * @param {Step} step
 */
const createRepeats = (run, step) =>
  run.shown[step.index].xray.repeats.map(([token, n, penalty]) =>
    el(
      "small",
      { class: "dp-stage-effect" },
      tr("“{token}” would continue a repeat of {n} tokens, −{penalty}", {
        token: tokenLabel(run, token),
        n: formatCount(n),
        penalty: formatFixed(penalty, 1),
      }),
    ),
  );

/**
 * What a filter did because of its coin or its state; nothing of filters that have none.
 * @param {Run} run
 * @param {Step} step
 * @param {string} name
 * @param {number} count of removed tokens
 */
function createStates(run, step, name, count) {
  const state = step.stages.find((stage) => stage.name === name)?.state ?? null;
  const describe = STATES[name];
  return state === null || !describe
    ? []
    : [el("small", { class: "dp-stage-effect" }, describe(state, run.config, count))];
}

/** @type {Record<string, (state: number, config: Run["config"], count: number) => string>} */
const STATES = {
  Mirostat: (cap, config) =>
    tr("Tokens that surprise by more than {cap} bits are removed; the target is {target} bits.", {
      cap: formatFixed(cap, 2),
      target: formatFixed(Number(config.mirostat_tau), 2),
    }),
  AdaptiveP: (aim, config) =>
    tr("Tokens with a probability near {aim} are favoured; the target is {target}.", {
      aim: formatPercent(aim),
      target: formatPercent(Number(config.adaptive_target)),
    }),
  XTC(coin, config, count) {
    const limit = Number(config.xtc_probability);
    const values = { coin: formatFixed(coin, 2), limit: formatFixed(limit, 2) };
    if (coin > limit)
      return tr("The coin shows {coin}, above {limit}: nothing is removed.", values);
    return count
      ? tr(
          "The coin shows {coin}, at most {limit}: of the top choices only the last stays.",
          values,
        )
      : tr(
          "The coin shows {coin}, at most {limit}, but there are fewer than two top choices.",
          values,
        );
  },
};

/**
 * @param {Run} run
 * @param {Step} step
 */
function processorRows(run, step) {
  const { entropy_model: own, entropy, removed } = run.shown[step.index].xray;
  const whole = formatCount(run.model.vocab_size);
  return [
    [tr("the model's own"), "", whole, "100 %", formatFixed(own, 2)],
    ...step.stages.map(({ name, kept, kept_mass: mass }, i) => [
      el("span", {}, createProcessorName(run, step, name, removed[i])),
      removed[i] ? tr("{n} removed", { n: formatCount(removed[i]) }) : tr("none"),
      formatCount(kept),
      formatPercent(mass),
      formatFixed(entropy[i], 2),
    ]),
  ];
}

const NO_PROCESSOR_TEXT = tr("No filter acted at this step: the model's own distribution decided.");
const UNSEEN_TEXT = tr(
  "No filter was seen at this step. What else the method did with the scores cannot be seen.",
);
const COLUMNS_NOTE = tr(
  "Kept = share of the probability that survived this filter. Entropy is measured after it.",
);

/**
 * The entropies of both distributions; only one if no processor acted.
 * @param {Run} run
 * @param {Step} step
 */
function entropyText(run, step) {
  const { entropy_model: entropy, entropy: after } = run.shown[step.index].xray;
  const size = formatCount(run.model.vocab_size);
  const values = {
    size,
    entropy: formatFixed(entropy, 2),
    used: formatFixed(after.at(-1) ?? 0, 2),
  };
  return after.length
    ? tr(
        "[entropy|Entropy] of the model's own distribution over the [vocabulary] of {size} tokens: {entropy} [bit|bits]; with your settings: {used} bits.",
        values,
      )
    : tr(
        "[entropy|Entropy] of the model's own distribution over the [vocabulary] of {size} tokens: {entropy} [bit|bits].",
        values,
      );
}

/**
 * @param {Run} run
 * @param {Step} step
 */
const createXray = (run, step) => [
  ...createStages(run, step),
  step.candidates.length ? el("p", { class: "dp-note" }, renderTerms(entropyText(run, step))) : "",
];

/**
 * @param {Run} run
 * @param {Step} step
 */
const createStages = (run, step) =>
  step.stages.length
    ? [
        createTable(COLUMNS.map(renderTerms), processorRows(run, step)),
        el("p", { class: "dp-note" }, COLUMNS_NOTE),
      ]
    : [
        el(
          "p",
          { class: "dp-empty" },
          step.detail?.kind === "forward" ? UNSEEN_TEXT : NO_PROCESSOR_TEXT,
        ),
      ];

/** @type {ViewSpec} */
export const xray = {
  title: tr("X-ray of the filters"),
  recorded: true,
  place: "drawer",
  tab: tr("X-ray"),
  empty: tr("What every filter removed, in the order they ran."),
  mount(root) {
    const body = el("div", {});
    root.append(body);
    return new StepView((run, step) => body.replaceChildren(...createXray(run, step)));
  },
};
