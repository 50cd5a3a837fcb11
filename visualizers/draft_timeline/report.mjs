// Whether the text is the target's own, and what drafting cost beside plain decoding.
import { el, fact } from "../shared/dom.mjs";
import { percent, piece } from "../shared/text.mjs";
import { fixed, seconds, shownOf, weightsOf } from "./words.mjs";

const reportOf = (run) => run.steps.at(-1)?.detail?.report || null;

function measured(lead, { distributions }) {
  const parts = distributions.map((x) => {
    const what = x.length === 1 ? "First token" : "First two tokens";
    const test = `χ² = ${x.chi_square.toFixed(1)} on ${x.degrees} degrees of freedom`;
    return `${what}: ${x.runs} runs, ${test}, p = ${x.p_value.toPrecision(2)}`;
  });
  return lead + parts.join(". ") + (parts.length ? "." : "");
}

/**
 * Kind, sign, title and sentence of the badge.
 * @param {Run} run
 */
function verdictOf(run, report) {
  const weights = weightsOf(run);
  if (weights !== null) {
    const [target, draft] = weights.map((x) => fixed(x, 2));
    const lead = `Drafts were judged by ${target}·p + ${draft}·q, so the text need not be the target's own. `;
    return ["warn", "≠", "Lossy by design", measured(lead, report)];
  }
  if (report.checked && !report.parting) return ["good", "✓", "Lossless", proofOf(report)];
  if (report.parting) return partingOf(run, report.parting);
  if (!report.distributions.length)
    return [
      "",
      "ⓘ",
      "Sampled",
      "By construction this is the target's distribution; set “Same distribution?” to measure it with many short runs.",
    ];
  const { same } = shownOf(run, run.steps.at(-1));
  const title = same ? "Same distribution" : "Distributions differ";
  return [same ? "good" : "bad", same ? "✓" : "✗", title, measured("", report)];
}

const proofOf = (report) =>
  `All ${report.checked} tokens are the target's own greedy choice: checked with one forward pass over the finished text (${seconds(report.check_s)}).${report.plain_identical ? " The plain run made the same tokens." : ""}`;

/** @param {Run} run */
function partingOf(run, p) {
  const own = `Token ${p.position + 1} is “${piece(run, p.emitted_id)}” (logit ${fixed(p.emitted_logit, 4)})`;
  const other = `the target prefers “${piece(run, p.expected_id)}” (${fixed(p.expected_logit, 4)})`;
  const gap = `a gap of ${p.gap.toPrecision(2)}`;
  const text = `${own}; ${other}, ${gap}`;
  return p.near_tie
    ? ["warn", "≈", "Identical up to a near tie", `${text}: within floating-point rounding.`]
    : ["bad", "✗", "Not the target's own text", `${text}.`];
}

/** @param {Run} run */
export function showBadge(box, run) {
  const report = reportOf(run);
  box.className = "dt-badge";
  box.replaceChildren();
  if (!report) return;
  const [kind, mark, title, text] = verdictOf(run, report);
  box.className = `dt-badge ${kind}`;
  box.append(el("b", {}, `${mark} ${title}`), el("span", {}, text));
}

function figuresOf(f) {
  const cells = [
    ["tokens per target pass", f.tokens_per_target_pass.toFixed(2)],
    ["target passes", f.rounds],
    ["draft passes", f.draft_passes],
    ["accepted per round", f.accepted_per_round.toFixed(2)],
    ["acceptance rate", f.acceptance_rate === null ? "–" : percent(f.acceptance_rate)],
    ["drafting", seconds(f.draft_s)],
    ["verifying", seconds(f.verify_s)],
    ["tokens per second", fixed(f.tokens_per_s, 1)],
  ];
  return el(
    "div",
    { class: "dp-costs" },
    cells.map(([name, value]) => fact(name, String(value))),
  );
}

/** @param {any} shown what the summary shows of the last round */
export function costOf({ figures, plain }) {
  const costs = figuresOf(figures);
  const expected = figures.expected_speed_up.toFixed(2);
  const cost = `a draft costs ${percent(figures.cost_ratio)} of a target pass`;
  if (!plain) {
    const text = `The papers' formula expects ${expected} × plain decoding from this acceptance rate and cost ratio (${cost}). Turn on “Measure plain decoding” to compare with the real thing.`;
    return [costs, el("p", { class: "dp-note" }, text)];
  }
  const compared = el(
    "p",
    { class: "dp-note" },
    "Plain decoding of the same prompt made ",
    el("b", {}, `${plain.tokens_per_s.toFixed(1)} tokens per second`),
    "; measured speed-up ",
    el("b", {}, `${plain.speed_up.toFixed(2)} ×`),
    `, expected by the papers' formula ${expected} × (acceptance ${percent(figures.acceptance_rate ?? 0)}, ${figures.draft_length.toFixed(1)} tokens a draft, ${cost}).`,
  );
  return plain.speed_up < 1 ? [costs, compared, slowOf(figures, plain)] : [costs, compared];
}

function slowOf(figures, plain) {
  const passes = `${seconds(figures.target_pass_s)} against ${seconds(plain.token_s)}`;
  const reason =
    (figures.acceptance_rate ?? 0) < 0.5
      ? ", because most guesses were wrong."
      : `, and one target pass over several tokens costs more than one over a single token (${passes}).`;
  return el(
    "p",
    { class: "dp-note dt-slow" },
    `⚠ Slower than plain decoding on this machine: drafting took ${percent(figures.draft_share)} of the time and a target pass gave ${figures.tokens_per_target_pass.toFixed(2)} tokens${reason}`,
  );
}
