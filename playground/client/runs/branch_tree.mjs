// A run and its branches as an indented list: open one, save its trace, or compare two.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { saveTrace } from "../../../visualizers/stage/download.mjs";
import { createComparison } from "./branch_comparison.mjs";
import {
  askedStrategy,
  branchName,
  branchOrigin,
  firstWords,
  listBranches,
  parentRun,
  relatedRuns,
  rootRun,
  runFigure,
  strategyTitle,
} from "./related_runs.mjs";

class BranchRow {
  /**
   * @param {Run} member
   * @param {{ open: () => void, tick: (on: boolean) => void }} acts
   */
  constructor(member, { open, tick }) {
    this.member = member;
    this.tick = el("input", { type: "checkbox", onchange: () => tick(this.tick.checked) });
    this.title = el("b", {});
    this.where = el("span", { class: "fm-where" });
    this.text = el("span", { class: "fm-words" });
    this.value = el("span", { class: "fm-value" });
    this.pick = el(
      "button",
      { type: "button", class: "fm-open", onclick: open },
      this.title,
      " ",
      this.where,
      " ",
      this.text,
    );
    this.save = createButton(tr("Trace"), () => saveTrace(member), {
      title: tr("Save the trace of this branch"),
    });
    this.item = el("li", {}, this.tick, this.pick, this.value, this.save);
  }

  /**
   * @param {number} depth
   * @param {boolean} now whether it is the run shown
   * @param {boolean} checked
   */
  draw(depth, now, checked) {
    const { member, item } = this;
    const alone = member.parent && !parentRun(member);
    const lost = alone ? tr(" of a run that is not on this page") : "";
    const name = branchName(member);
    item.style.setProperty("--depth", String(depth));
    item.classList.toggle("child", depth > 0);
    this.title.textContent = strategyTitle(askedStrategy(member));
    this.where.textContent = branchOrigin(member) + lost;
    this.text.textContent = firstWords(member);
    this.value.textContent = runFigure(member);
    this.tick.setAttribute("aria-label", tr("Compare {name}", { name }));
    this.pick.setAttribute("aria-label", tr("Open {name}", { name }));
    this.save.setAttribute("aria-label", tr("Save the trace of {name}", { name }));
    this.pick.toggleAttribute("aria-current", now);
    item.classList.toggle("now", now);
    this.save.disabled = member.status === "running";
    this.tick.checked = checked;
  }
}

export class BranchTree {
  /** @type {Map<string, BranchRow>} */
  #rows = new Map();
  /** @type {Set<string>} */
  #checked = new Set();
  /** @type {Run | null} */
  #run = null;

  /** @param {(run: Run) => void} open */
  constructor(open) {
    this.open = open;
    this.tree = el("ul", { class: "fm-tree", "aria-label": tr("The family of this run") });
    this.result = el("div", { class: "fm-result" });
    this.compare = createButton(tr("Compare the two that are ticked"), () => {
      const pair = [...this.#checked].flatMap((id) => relatedRuns.get(id) ?? []);
      this.result.replaceChildren(...createComparison(pair));
    });
    this.node = el(
      "div",
      { class: "fm-family", hidden: true },
      el("h4", {}, tr("The family of this run")),
      this.tree,
      el("div", { class: "dp-row" }, this.compare),
      this.result,
    );
  }

  /** @param {Run} member */
  #row(member) {
    const known = this.#rows.get(member.id);
    if (known) return known;
    /** @param {boolean} on */
    const tick = (on) => {
      if (on) this.#checked.add(member.id);
      else this.#checked.delete(member.id);
      this.draw(this.#run);
    };
    const row = new BranchRow(member, { open: () => this.open(member), tick });
    this.#rows.set(member.id, row);
    return row;
  }

  /** @param {Set<string>} others */
  #forget(others) {
    for (const [id, row] of this.#rows) {
      if (others.has(id)) continue;
      row.item.remove();
      this.#rows.delete(id);
      this.#checked.delete(id);
      this.result.replaceChildren();
    }
  }

  /** @param {Run | null} run */
  draw(run) {
    this.#run = run;
    const list = run && relatedRuns.has(run.id) ? listBranches(rootRun(run)) : [];
    this.node.hidden = list.length < 2 && !run?.parent;
    this.#forget(new Set(list.map(([member]) => member.id)));
    list.forEach(([member, depth], i) => {
      const row = this.#row(member);
      if (this.tree.children[i] !== row.item)
        this.tree.insertBefore(row.item, this.tree.children[i] || null);
      row.draw(depth, member === run, this.#checked.has(member.id));
    });
    this.compare.disabled = this.#checked.size !== 2;
  }
}
