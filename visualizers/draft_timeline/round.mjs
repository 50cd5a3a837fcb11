// One round in full: who drafted, from where, and where the last token came from.
import { el, scroller, svg } from "../shared/dom.mjs";
import { told } from "../shared/terms.mjs";
import { count, percent, piece, textOfId, visible } from "../shared/text.mjs";
import { DRAFTER, seconds } from "./words.mjs";

const note = (...text) => el("p", { class: "dp-note" }, text);

/**
 * @param {Run} run
 * @param {Step} step
 */
function headline(run, step) {
  const d = step.detail;
  const layer = d.exit_layer ? ` (${d.exit_layer} of ${run.model.layers})` : "";
  const who = (DRAFTER[d.drafter] || "a drafter") + layer;
  return note(
    el("b", {}, told(`[round|Round] ${step.index + 1}. `)),
    `Drafted by ${who}: ${d.length_reason}. ${count(d.draft_forwards, "draft pass", "draft passes")} in ${seconds(d.draft_s)}, ${count(step.forward_passes, "target pass", "target passes")} in ${seconds(d.verify_s)}.`,
  );
}

/** @param {Run} run */
function residual(run, detail) {
  const lead =
    detail.final_source === "resampled"
      ? "After the rejection the token came from [residual|max(0, p − q)]: "
      : "The last token came from: ";
  const names = detail.residual
    .slice(0, 6)
    .map(
      ([id, p]) => `${(id === detail.final_token_id ? "▸" : "") + piece(run, id)} ${percent(p)}`,
    );
  return note(told(lead), names.join(",  "));
}

/**
 * @param {Run} run
 * @param {Step} step
 */
export function roundOf(run, step) {
  const d = step.detail;
  return [
    headline(run, step),
    d.match ? arcOf(run, step) : null,
    d.drafter === "universal" && d.draft_own.length ? railsOf(run, d) : null,
    d.residual.length ? residual(run, d) : null,
  ].filter(Boolean);
}

/**
 * Prompt lookup: the n-gram it found and the place it was looked up for, joined by an arc.
 * @param {Run} run
 * @param {Step} step
 */
function arcOf(run, step) {
  const [size, start, copied] = step.detail.match;
  const written = run.outputs[0] ? run.outputs[0].token_ids : run.tokens[0].map((t) => t.id);
  const text = [...run.prompt_ids, ...written.slice(0, step.keep)];
  const tail = text.length - size;
  const from = Math.max(0, start - 3);
  const until = Math.min(tail, start + size + copied + 2);
  const after = Math.max(until, tail - 4);
  const kindOf = (i) => {
    if (i >= start && i < start + size) return "src";
    if (i >= start + size && i < start + size + copied) return "copy";
    return i >= tail ? "dst" : null;
  };
  const range = (a, b) =>
    text
      .slice(a, Math.max(a, b))
      .map((id, i) => el("span", { class: kindOf(a + i) }, piece(run, id)));
  const gap = (sign) => el("span", { class: "gap" }, sign);
  return el(
    "div",
    {
      class: "dt-arc",
      role: "img",
      "aria-label": `The last ${size === 1 ? "token was" : `${size} tokens were`} found from token ${start + 1} on; the ${count(copied, "token", "tokens")} after it ${copied === 1 ? "was" : "were"} copied`,
    },
    svg("svg", { "aria-hidden": "true" }, svg("path", { fill: "none" })),
    el(
      "div",
      { class: "dt-text" },
      from ? gap("…") : null,
      range(from, until),
      after > until ? gap(" … ") : null,
      range(after, text.length),
      gap(" ⟵ next"),
    ),
    note(
      `The last ${size === 1 ? "token was" : `${size} tokens were`} seen before, from token ${start + 1} on (solid); the ${count(copied, "token", "tokens")} that followed there (dashed) became the draft.`,
    ),
  );
}

// Where the words stand is known only when they are on the page.
export function bend(box) {
  const found = box.querySelector(".src");
  const sought = box.querySelector(".dst");
  const path = box.querySelector("svg path");
  if (!found || !sought || !path || !box.isConnected) return;
  const base = box.getBoundingClientRect();
  const above = (node) => {
    const at = node.getBoundingClientRect();
    return [at.left + at.width / 2 - base.left, at.top - base.top];
  };
  const [x1, y1] = above(found);
  const [x2, y2] = above(sought);
  const high = Math.min(y1, y2) - 26;
  path.setAttribute("d", `M${x2},${y2} C${x2},${high} ${x1},${high} ${x1},${y1}`);
}

/**
 * Universal: the draft's own tokens above, what they became for the target below, character under character.
 * @param {Run} run
 */
function railsOf(run, detail) {
  const rail = (name, pieces, kind) =>
    el(
      "div",
      { class: "dt-rail" },
      el("span", { class: "who" }, name),
      el(
        "span",
        { class: `cells ${kind}` },
        pieces.map((p) => el("span", {}, visible(p).replace(/ /g, "·"))),
      ),
    );
  const ours = detail.reencoded.map((id) => textOfId(run, id));
  const lost = detail.lost
    ? `Lost in re-encoding: “${visible(detail.lost)}”.`
    : "Nothing was lost between the two tokenizers.";
  const box = scroller(
    "Draft tokens and target tokens",
    rail("draft tokens", detail.draft_own, "own"),
    rail("target tokens", ours, "ours"),
    note(lost),
  );
  box.className = "dt-rails dp-scroll";
  return box;
}
