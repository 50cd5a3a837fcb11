// Whether the text is the target's own, and what drafting cost beside plain decoding.
import { el, fact } from "../shared/dom.mjs";
import { told } from "../shared/terms.mjs";
import { count, percent, piece, precise } from "../shared/text.mjs";
import { fixed, seconds, shownOf, weightsOf } from "./words.mjs";

const reportOf = (run) => run.steps.at(-1)?.detail?.report || null;

function measured(lead, { distributions }) {
  const parts = distributions.map((x) => {
    const what = x.length === 1 ? "First token" : "First two tokens";
    const test = `χ² = ${fixed(x.chi_square, 1)} on ${count(x.degrees, "degree")} of freedom`;
    return `${what}: ${count(x.runs, "run")}, ${test}, p = ${precise(x.p_value)}`;
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
  if (report.checked && !report.parting)
    return ["good", "✓", "[lossless|Lossless]", proofOf(report)];
  if (report.parting) return partingOf(run, report.parting);
  if (!run.config.do_sample) return ["", "ⓘ", "Not checked", "The notes of the run say why."];
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
  `${report.checked === 1 ? "The token is" : `All ${report.checked} tokens are`} the target's own greedy choice: checked with one forward pass over the finished text (${seconds(report.check_s)}).${report.plain_identical ? " The plain run made the same tokens." : ""}`;

/** @param {Run} run */
function partingOf(run, p) {
  const own = `Token ${p.position + 1} is “${piece(run, p.emitted_id)}” (logit ${fixed(p.emitted_logit, 4)})`;
  const other = `the target prefers “${piece(run, p.expected_id)}” (${fixed(p.expected_logit, 4)})`;
  const gap = `a gap of ${precise(p.gap)}`;
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
  box.append(el("b", {}, `${mark} `, told(title)), el("span", {}, text));
}

function figuresOf(f) {
  const cells = [
    ["[tokens per target pass]", fixed(f.tokens_per_target_pass, 2)],
    ["[target] passes", f.rounds],
    ["[draft] passes", f.draft_passes],
    ["accepted per round", fixed(f.accepted_per_round, 2)],
    ["[acceptance rate]", f.acceptance_rate === null ? "–" : percent(f.acceptance_rate)],
    ["drafting", seconds(f.draft_s)],
    ["verifying", seconds(f.verify_s)],
    ["tokens per second", fixed(f.tokens_per_s, 1)],
  ];
  return el(
    "div",
    { class: "dp-costs" },
    cells.map(([name, value]) => fact(told(name), String(value))),
  );
}

// What the papers' formula makes of the run's own figures.
function expectedOf({ expected_speed_up: expected, cost_ratio: cost }) {
  const costs = `a draft costs ${percent(cost)} of a target pass`;
  return expected === null
    ? `The papers' formula does not fit this run: it expects more tokens of a target pass than there were (${costs}).`
    : `The papers' formula expects ${fixed(expected, 2)} × plain decoding from this [acceptance rate] and [cost ratio] (${costs}).`;
}

/** @param {any} shown what the summary shows of the last round */
export function costOf({ figures, plain }) {
  const costs = figuresOf(figures);
  const note = (...words) => el("p", { class: "dp-note" }, words);
  const expected = expectedOf(figures);
  if (!plain)
    return [
      costs,
      note(told(expected), ` Turn on “Measure plain decoding” to compare with the real thing.`),
    ];
  if (plain.speed_up === null)
    return [
      costs,
      note("Speed-up ", el("b", {}, "not measured"), `: ${plain.why}. `, told(expected)),
    ];
  const compared = note(
    "Plain decoding of the same prompt made ",
    el("b", {}, `${fixed(plain.tokens_per_s, 1)} tokens per second`),
    "; measured ",
    told("[speed-up]"),
    " ",
    el("b", {}, `${fixed(plain.speed_up, 2)} ×`),
    ". ",
    told(expected),
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
    `⚠ Slower than plain decoding on this machine: drafting took ${percent(figures.draft_share)} of the time and a target pass gave ${fixed(figures.tokens_per_target_pass, 2)} tokens${reason}`,
  );
}
