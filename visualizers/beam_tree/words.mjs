// Words and numbers of a beam search.
import { percent, piece, prob, visible } from "../shared/text.mjs";

export const SAY = {
  kept: "kept",
  pruned: "dropped",
  finished: "finished",
  finished_worse: "finished, but worse than the others",
  blocked: "ended without counting",
};
export const MARK = { finished: "■ ", finished_worse: "□ ", blocked: "⊘ " };
export const signed = (x, digits = 3) => x.toFixed(digits).replace("-", "−");
const WIDE_GLYPH =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]|\p{Extended_Pictographic}/u;

// Cut a text to so many places of a monospace line; wide glyphs take two.
export function short(text, room) {
  let used = 0,
    out = "";
  for (const glyph of text) {
    used += WIDE_GLYPH.test(glyph) ? 2 : 1;
    if (used > room) return `${out.slice(0, -1)}…`;
    out += glyph;
  }
  return out;
}
export const scoreOf = (sum, length, penalty, value) =>
  `${signed(sum)} ÷ ${length}^${penalty} = ${signed(value)}`;
export const verdict = (data) =>
  data.fate === "pruned" && data.margin <= 0
    ? `It missed the cut by ${signed(-data.margin)}.`
    : data.fate !== "kept"
      ? ""
      : data.margin > 0
        ? `It made the cut by ${signed(data.margin)}.`
        : "It is the last that made the cut.";
export const charged = (data) =>
  data.penalised_by.length
    ? `−${data.diversity_penalty.toFixed(2)} because group ${data.penalised_by.map((g) => g + 1).join(", ")} took it first`
    : "";
export const describe = (run, node) => {
  const d = node.data;
  return (
    "“" +
    piece(run, d.token_id) +
    "”, step " +
    (node.column + 1) +
    ", " +
    SAY[d.fate] +
    ", probability " +
    percent(prob(d.logprob)) +
    ", sum " +
    signed(d.sum_logprobs) +
    ", score " +
    signed(d.score) +
    ", rank " +
    (d.rank + 1) +
    [verdict(d), d.reason, charged(d) && `diversity ${charged(d)}`]
      .filter(Boolean)
      .map((s) => `, ${s}`)
      .join("")
  );
};
export const pathTo = (node) => {
  const list = [];
  for (let at = node; at; at = at.parent) list.unshift(at);
  return list;
};
export const textTo = (run, node) =>
  visible(
    pathTo(node)
      .map((n) => run.pieces[n.data.token_id] ?? `#${n.data.token_id}`)
      .join(""),
  );
