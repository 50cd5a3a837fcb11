// Rescoring a finished search: the recorded hypotheses under another length penalty, sums written out.

import { el } from "../shared/dom.mjs";
import { visible } from "../shared/text.mjs";
import { entry } from "./info.mjs";
import { rescore } from "./rescore.mjs";
import { signed } from "./words.mjs";

const SHOWN = 12;
const power = (length, penalty) => {
  const p = length ** penalty;
  return p >= 0.001 && p < 1e6 ? String(+p.toPrecision(6)) : p.toExponential(3).replace("e+", "e");
};

export const rescoreView = {
  title: "Another length penalty",
  empty:
    "When the search has ended: the finished texts ranked with any length penalty, without running again.",
  wide: true,
  mount(root) {
    const slider = el("input", {
      type: "range",
      min: -2,
      max: 5,
      step: 0.1,
      "aria-label": "Length penalty",
      oninput: () => show(),
    });
    const back = el(
      "button",
      {
        type: "button",
        class: "dp-btn",
        onclick: () => {
          slider.value = run.config.length_penalty;
          show();
        },
      },
      "As it ran",
    );
    const value = el("output", { class: "br-value" }),
      note = el("p", { class: "dp-note", "aria-live": "polite" }),
      list = el("div", { class: "br-list" });
    const waiting = el(
      "p",
      { class: "dp-empty" },
      "The finished texts are ranked here when the search has ended.",
    );
    const body = el(
      "div",
      {},
      el(
        "div",
        { class: "dp-row br-slider" },
        el("label", { class: "dp-row br-slider" }, "Length penalty ", slider),
        value,
        back,
      ),
      note,
      list,
      el(
        "p",
        { class: "dp-note" },
        "The score of a text is the sum of its log-probabilities ÷ its number of new tokens ^ length penalty. The prompt does not count, the end mark does.",
      ),
    );
    root.append(waiting, body);
    body.hidden = true;
    let run = null,
      forest = null;
    function show() {
      if (!run) return;
      const penalty = Number(slider.value),
        result = rescore(run, penalty),
        own = run.config.length_penalty,
        same = Math.abs(penalty - own) < 1e-9,
        winner = run.steps[run.steps.length - 1].detail.winner_node_id;
      value.textContent = penalty.toFixed(1).replace("-", "−") + (same ? " (as it ran)" : "");
      back.toggleAttribute("disabled", same);
      const first = result.lines[0]?.node.node_id,
        before = new Map(rescore(run, own).lines.map((line, i) => [line.node.node_id, i]));
      note.textContent = `${first === winner ? "The winner stays the same." : "Another text would win."} ${result.rerun ? `${result.rerun} Run it again to see that search: it may know other texts.` : "The search would have stopped where it did, so this ranking is exact."}`;
      note.dataset.first = first;
      note.dataset.end = String(result.end);
      const items = result.lines.slice(0, SHOWN).map((line, i) => {
        const moved = before.get(line.node.node_id) - i,
          sum = signed(line.node.sum_logprobs, 4),
          shown = penalty.toFixed(1).replace("-", "−");
        const item = entry(
          (line.node.node_id === winner ? "★ " : "") + (i + 1),
          `${sum} ÷ ${line.length}^${shown} = ${sum} ÷ ${power(line.length, penalty)} = ${signed(line.score, 4)}`,
          textOf(line.node.node_id),
          moved
            ? el("span", { class: "move" }, (moved > 0 ? "▲ up " : "▼ down ") + Math.abs(moved))
            : null,
        );
        if (!i) item.classList.add("first");
        return item;
      });
      list.replaceChildren(
        el(
          "ol",
          {
            class: "bt-heap",
            tabindex: 0,
            "aria-label": "Finished texts with this length penalty, best first",
          },
          items,
        ),
      );
      if (result.lines.length > SHOWN)
        list.append(el("p", { class: "dp-note" }, `and ${result.lines.length - SHOWN} more`));
    }
    function textOf(id) {
      const parts = [];
      for (let at = id; at !== -1; at = forest.get(at).parent_id)
        parts.unshift(run.pieces[forest.get(at).token_id] ?? `#${forest.get(at).token_id}`);
      return visible(parts.join(""));
    }
    return {
      update(now) {
        const step = now.steps[now.steps.length - 1],
          ready = Boolean(step?.detail && step.detail.kind === "beam" && step.detail.stopping);
        waiting.hidden = ready;
        body.hidden = !ready;
        if (!ready || run === now) return;
        run = now;
        forest = new Map(now.steps.flatMap((s) => s.detail.pool.map((n) => [n.node_id, n])));
        slider.value = now.config.length_penalty;
        show();
      },
      select() {},
      clear() {
        run = null;
        list.replaceChildren();
        note.textContent = "";
        body.hidden = true;
        waiting.hidden = false;
      },
    };
  },
};
