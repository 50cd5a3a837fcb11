// Where texts part, and what each run saw there.
import { el, table } from "../shared/dom.mjs";
import { percent, piece, prob } from "../shared/text.mjs";

const alike = (runs) =>
  runs.every(
    (r) =>
      r.model.vocab_size === runs[0].model.vocab_size &&
      String(r.prompt_ids) === String(runs[0].prompt_ids),
  );
export const ended = (run) => run.status !== "running";
// Ids of one vocabulary are compared as ids, else the pieces of text they stand for.
export const parting = (runs) => {
  if (runs.length < 2) return null;
  const byId = alike(runs),
    lists = runs.map((r) => r.tokens[0] || []);
  for (let at = 0; ; at++) {
    if (lists.every((list) => at >= list.length)) return { common: at, at: null };
    const known = lists.map((list, i) =>
      at < list.length
        ? byId
          ? list[at].id
          : (runs[i].pieces[list[at].id] ?? list[at].id)
        : ended(runs[i])
          ? "end"
          : undefined,
    );
    const seen = new Set(known.filter((k) => k !== undefined));
    if (seen.size > 1) return { common: at, at };
    if (known.includes(undefined)) return { common: at, at: null };
  }
};
// The nodes of the text that won; empty while the search goes on.
function winner(run) {
  const nodes = new Map(),
    path = new Set(),
    last = run.steps[run.steps.length - 1].detail;
  if (!ended(run) || !last || last.winner_node_id === null) return path;
  for (const step of run.steps) for (const node of step.detail.pool) nodes.set(node.node_id, node);
  for (let node = nodes.get(last.winner_node_id); node; node = nodes.get(node.parent_id))
    path.add(node.node_id);
  return path;
}
// What a run recorded of the place: the candidates of a step belong to the last token it wrote.
export function partingSide(run, at) {
  const token = (run.tokens[0] || [])[at];
  if (!token) return { words: ended(run) ? "The text had ended." : "Not there yet." };
  const deep = run.steps.filter((s) => s.sequence === 0)[at];
  if (deep?.detail && deep.detail.kind === "beam")
    return {
      token,
      step: deep,
      pool: [...deep.detail.pool].sort((a, b) => b.sum_logprobs - a.sum_logprobs).slice(0, 6),
      path: winner(run),
    };
  const step = run.steps[token.step],
    offset = at - step.keep,
    drafted = step.detail && step.detail.kind === "draft" && step.detail.tokens[offset];
  if (offset === step.emit.length - 1)
    return { token, step, list: step.candidates.slice(0, 6), chosen: token.id };
  if (drafted)
    return {
      token,
      step,
      words: `Drafted and ${drafted.status} in round ${step.index + 1}: probability ${percent(drafted.p)}${drafted.q === null ? "" : `, the draft's ${percent(drafted.q)}`}.`,
    };
  return {
    token,
    step,
    words: `Written by step ${step.index + 1}, which changed several tokens at once.`,
  };
}
export function partingView(run, found) {
  const rows = [];
  if (found.pool)
    return el(
      "div",
      {},
      table(
        ["token", "log-probability of the text so far", "fate"],
        found.pool.map((n) => [
          (found.path.has(n.node_id) ? "▸ " : "") + piece(run, n.token_id),
          n.sum_logprobs.toFixed(2).replace("-", "−"),
          n.fate,
        ]),
      ),
      el(
        "p",
        { class: "dp-note" },
        found.note || "The best of all beams at this depth; ▸ is the text that won.",
      ),
    );
  for (const c of found.list || []) {
    const on = c.token_id === found.chosen,
      p = prob(c.processed_logprob),
      own = prob(c.raw_logprob);
    rows.push(
      el("span", { class: `t${on ? " on" : ""}` }, piece(run, c.token_id)),
      el(
        "span",
        { class: `b${c.removed_by ? " gone" : ""}` },
        el("i", { style: { width: `${100 * p}%` } }),
        el("u", { style: { width: `${100 * own}%` } }),
      ),
      el("span", { class: "n" }, percent(p)),
      el("span", { class: "r" }, c.removed_by ? `✕ ${c.removed_by}` : ""),
    );
  }
  return found.list
    ? el("div", { class: "dp-bars" }, rows)
    : el("p", { class: "dp-note" }, found.words);
}
