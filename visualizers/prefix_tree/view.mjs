// View of many draws as a prefix tree: filled bars are
// frequencies, outlined bars exact probabilities.
import { el, fact, scroller, table } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { counted, fixed, percent, visible } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { picture } from "./picture.mjs";

const COLUMNS = [
  tr("text"),
  tr("times"),
  tr("share"),
  tr("exact probability"),
  tr("expected times ± one sigma"),
  tr("first seed"),
];
const WORDS = {
  running: tr("Drawing… "),
  done: tr("Done: "),
  stopped: tr("Stopped, what was drawn is kept: "),
  recorded: tr("A recorded example, press Draw to make your own: "),
};
const EMPTY = tr(
  "Press Draw: the texts of all seeds grow into a tree of their common beginnings, each branch as wide as it was frequent, beside the probability the model gave it.",
);

const tableOf = (message) =>
  table(
    COLUMNS,
    message.rows.map(([text, times, share, exact, expected, sigma, seed]) => [
      visible(text),
      String(times),
      percent(share),
      percent(exact),
      `${fixed(expected, 1)} ± ${fixed(sigma, 1)}`,
      String(seed),
    ]),
  );

const key = (kind, words) => el("span", {}, el("i", { class: `pt-key ${kind}` }), words);

const legend = () =>
  el(
    "div",
    { class: "dp-legend" },
    key("real", tr("filled: how often it was drawn")),
    key("exact", tr("outlined: its exact probability")),
  );

const card = (title, ...inside) =>
  el("section", { class: "dp-card", "aria-label": title }, el("h3", {}, title), inside);

function statusOf({ kind, draws, wanted, seconds }) {
  const time = seconds ? tr(" in {seconds} s", { seconds: seconds.toFixed(1) }) : "";
  const done = counted(
    wanted,
    tr("{draws} of 1 draw", { draws }),
    tr("{draws} of {n} draws", { draws }),
  );
  return `${WORDS[kind]}${done}${time}`;
}

class PrefixTree {
  // Status text of the shown draws.
  #words = "";

  constructor(root) {
    this.status = el("div", { class: "dp-status", role: "status", "aria-live": "polite" });
    this.bar = el("progress", { max: 1, value: 0, "aria-label": tr("Draws done") });
    this.facts = el("div", { class: "dp-costs" });
    this.tree = scroller(tr("Tree of the draws"));
    this.tree.className = "dp-scroll pt-scroll";
    this.list = el("div", {});
    this.drawn = card(tr("Tree of beginnings"), this.facts, legend(), this.tree);
    this.texts = card(tr("Different texts, the most frequent first"), this.list);
    this.empty = el("p", { class: "dp-empty" }, EMPTY);
    const first = el("section", { class: "dp-card" }, this.status, this.bar, this.empty);
    root.replaceChildren(first, this.drawn, this.texts);
    for (const part of [this.bar, this.drawn, this.texts]) part.hidden = true;
  }

  /**
   * Show the activity; without one, the status of the draws.
   * @param {Activity | undefined} activity
   */
  say(activity) {
    const busy = activity && activity.phase !== "stopped";
    this.status.classList.toggle("busy", !!busy);
    this.status.textContent = said(activity?.says) || this.#words;
    if (busy) this.status.classList.remove("bad");
  }

  show(message) {
    const failed = message.kind === "failed";
    this.status.className = `dp-status${failed ? " bad" : ""}`;
    this.#words = failed ? said(message.error) : statusOf(message);
    this.status.textContent = this.#words;
    this.bar.hidden = message.kind !== "running";
    if (failed) return;
    this.empty.hidden = true;
    this.bar.max = message.wanted;
    this.bar.value = message.draws;
    this.drawn.hidden = !message.draws;
    this.texts.hidden = !message.draws;
    if (message.draws) this.#show(message);
  }

  refuse(sentence) {
    this.status.className = "dp-status bad";
    this.status.textContent = said(sentence);
  }

  #show(message) {
    this.facts.replaceChildren(
      fact(tr("draws"), message.draws),
      fact(tr("different texts"), message.distinct),
      fact(tr("probability they hold together"), percent(message.covered)),
    );
    this.tree.replaceChildren(picture(message, this.tree.clientWidth));
    const shown = message.rows.length;
    const rest = counted(
      message.distinct,
      tr("The {shown} most frequent of 1 text.", { shown }),
      tr("The {shown} most frequent of {n} texts.", { shown }),
    );
    this.list.replaceChildren(
      tableOf(message),
      message.distinct > shown ? el("p", { class: "dp-note" }, rest) : "",
    );
  }
}

export const prefixTree = (root) => new PrefixTree(root);
