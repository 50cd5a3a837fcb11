// Report of a run with drafts: the losslessness check, and the cost compared with plain decoding.
import { createFact, el } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { renderTerms } from "../shared/terms.mjs";
import {
  formatDuration,
  formatPercent,
  formatPrecise,
  pluralText,
  tokenLabel,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { formatOptional, mixtureWeights, roundSummary } from "./words.mjs";

/** @import { DraftFigures, DraftSummary, PlainFigures } from "../shared/summaries.d.ts" */

/**
 * @param {Run} run
 * @returns {DraftReport | null}
 */
const findReport = (run) => run.steps.at(-1)?.detail?.report || null;

/**
 * @param {string} lead
 * @param {DraftReport} report
 */
function measurementText(lead, { distributions }) {
  const parts = distributions.map((x) => {
    return tr("{what}: {runs}, χ² = {chi} on {degrees}, p = {p}", {
      what: x.length === 1 ? tr("First token") : tr("First two tokens"),
      runs: pluralText(x.runs, tr("1 run"), tr("{n} runs")),
      chi: formatOptional(x.chi_square, 1),
      degrees: pluralText(x.degrees, tr("1 degree of freedom"), tr("{n} degrees of freedom")),
      p: formatPrecise(x.p_value),
    });
  });
  return lead + parts.join(". ") + (parts.length ? "." : "");
}

/**
 * Class, sign, title and sentence of the badge.
 * @param {Run} run
 * @param {DraftReport} report
 */
function badgeParts(run, report) {
  const weights = mixtureWeights(run);
  if (weights !== null) {
    const [target, draft] = weights.map((x) => formatOptional(x, 2));
    const lead = tr(
      "Drafts were judged by {target}·p + {draft}·q, so the text need not be the main model's own. ",
      { target, draft },
    );
    return ["warn", "≠", tr("Lossy by design"), measurementText(lead, report)];
  }
  if (report.checked && !report.parting)
    return ["good", "✓", tr("[lossless|Lossless]"), proofText(report)];
  if (report.parting) return mismatchParts(run, report.parting);
  if (!run.config.do_sample)
    return ["", "ⓘ", tr("Not checked"), tr("The notes of the run say why.")];
  if (!report.distributions.length)
    return [
      "",
      "ⓘ",
      tr("Sampled"),
      tr(
        "By construction this is the main model's distribution. Set “Same distribution?” to measure it with many short runs.",
      ),
    ];
  const { same } = roundSummary(run, run.steps[run.steps.length - 1]);
  const title = same ? tr("Same distribution") : tr("Distributions differ");
  return [same ? "good" : "bad", same ? "✓" : "✗", title, measurementText("", report)];
}

/** @param {DraftReport} report */
function proofText({ checked: n, check_s, plain_identical }) {
  const took = formatDuration(check_s);
  const proof =
    n === 1
      ? tr(
          "The token is the main model's own greedy choice: one forward pass over the finished text checked it ({took}).",
          { took },
        )
      : tr(
          "All {n} tokens are the main model's own greedy choice: one forward pass over the finished text checked them ({took}).",
          { n, took },
        );
  return plain_identical ? `${proof} ${tr("The plain run made the same tokens.")}` : proof;
}

/**
 * @param {Run} run
 * @param {NonNullable<DraftReport["parting"]>} p
 */
function mismatchParts(run, p) {
  const text = tr(
    "Token {n} is “{own}” (logit {logit}); the main model prefers “{other}” ({preferred}), a gap of {gap}",
    {
      n: p.position + 1,
      own: tokenLabel(run, p.emitted_id),
      logit: formatOptional(p.emitted_logit, 4),
      other: tokenLabel(run, p.expected_id),
      preferred: formatOptional(p.expected_logit, 4),
      gap: formatPrecise(p.gap),
    },
  );
  if (!p.near_tie) return ["bad", "✗", tr("Not the main model's own text"), `${text}.`];
  const within = tr("{text}: within floating-point rounding.", { text });
  return ["warn", "≈", tr("Identical up to a near tie"), within];
}

/**
 * @param {HTMLElement} box
 * @param {Run} run
 */
export function showBadge(box, run) {
  const report = findReport(run);
  box.className = "dt-badge";
  box.replaceChildren();
  if (!report) return;
  const [kind, mark, title, text] = badgeParts(run, report);
  box.className = `dt-badge ${kind}`;
  box.append(el("b", {}, `${mark} `, renderTerms(title)), el("span", {}, text));
}

/** @param {DraftFigures} f */
function createFigures(f) {
  /** @type {[string, string | number][]} */
  const cells = [
    [tr("[tokens per pass]"), formatOptional(f.tokens_per_target_pass, 2)],
    [tr("passes of the [main model]"), f.rounds],
    [tr("passes of the [draft] model"), f.draft_passes],
    [tr("accepted per round"), formatOptional(f.accepted_per_round, 2)],
    [tr("[acceptance rate]"), f.acceptance_rate === null ? "–" : formatPercent(f.acceptance_rate)],
    [tr("drafting"), formatDuration(f.draft_s)],
    [tr("verifying"), formatDuration(f.verify_s)],
    [tr("tokens per second"), formatOptional(f.tokens_per_s, 1)],
  ];
  return el(
    "div",
    { class: "dp-costs" },
    cells.map(([name, value]) => createFact(renderTerms(name), String(value))),
  );
}

/**
 * A sentence on the speed-up that the papers' formula expects from this run's figures.
 * @param {DraftFigures} figures
 */
function expectedText({ expected_speed_up: expected, cost_ratio: cost }) {
  const costs = tr("a draft costs {share} of a pass of the main model", {
    share: formatPercent(cost),
  });
  return expected === null
    ? tr(
        "The theoretical speed-up doesn't apply here: fewer tokens were accepted per pass than the formula assumes ({costs}).",
        { costs },
      )
    : tr(
        "The papers' formula expects {speed} × plain decoding from this [acceptance rate] and [cost ratio] ({costs}).",
        { speed: formatOptional(expected, 2), costs },
      );
}

/**
 * @param {DraftSummary} shown summary of the last round
 * @param {boolean} tree whether the drafts are trees
 */
export function createCosts({ figures, plain }, tree) {
  const costs = createFigures(figures);
  /** @param {...Content} words */
  const note = (...words) => el("p", { class: "dp-note" }, words);
  const expected = tree
    ? tr("The papers' formula for the speed-up is about drafts in a line, not about trees.")
    : expectedText(figures);
  if (!plain)
    return [
      costs,
      note(
        renderTerms(expected),
        tr(" Turn on “Measure plain decoding” to compare with the real thing."),
      ),
    ];
  if (plain.speed_up === null)
    return [
      costs,
      note(
        tr("Speed-up "),
        el("b", {}, tr("not measured")),
        `: ${said(plain.why)}. `,
        renderTerms(expected),
      ),
    ];
  const compared = note(
    tr("Plain decoding of the same prompt made "),
    el("b", {}, tr("{n} tokens per second", { n: formatOptional(plain.tokens_per_s, 1) })),
    tr("; measured "),
    renderTerms(tr("[speed-up]")),
    " ",
    el("b", {}, `${formatOptional(plain.speed_up, 2)} ×`),
    ". ",
    renderTerms(expected),
  );
  return plain.speed_up < 1 ? [costs, compared, createSlowNote(figures, plain)] : [costs, compared];
}

/**
 * @param {DraftFigures} figures
 * @param {PlainFigures} plain
 */
function createSlowNote(figures, plain) {
  const values = {
    share: formatPercent(figures.draft_share),
    pace: formatOptional(figures.tokens_per_target_pass, 2),
    several: formatDuration(figures.target_pass_s),
    single: formatDuration(plain.token_s),
  };
  const slow =
    (figures.acceptance_rate ?? 0) < 0.5
      ? tr(
          "⚠ Slower than plain decoding on this machine. Drafting took {share} of the time, and each pass of the main model gave {pace} tokens: most guesses were wrong.",
          values,
        )
      : tr(
          "⚠ Slower than plain decoding on this machine. Drafting took {share} of the time, and each pass of the main model gave {pace} tokens. A pass over several tokens costs more than one over a single token ({several} against {single}).",
          values,
        );
  return el("p", { class: "dp-note dt-slower" }, slow);
}
