// Two to four runs of one prompt side by side: their texts as they grow, and where they first part.

import { ended, parting, partingSide, partingView } from "../../visualizers/compare/parting.mjs";
import { compareFigures } from "../../visualizers/compare/view.mjs";
import { el } from "../../visualizers/shared/dom.mjs";
import { piece, visible } from "../../visualizers/shared/text.mjs";
import { compareForm } from "./compare_form.mjs";
import { watchers } from "./compare_watch.mjs";
import { stages, store } from "./runs.mjs";

export const compare = (root, spec, trigger) => {
  const prompt = el("textarea", { rows: 2, "aria-label": "Prompt", class: "cmp-prompt" }),
    seed = el("input", { type: "number", min: 0, step: 1, value: 0, "aria-label": "Seed" });
  const base = el(
    "select",
    { "aria-label": "Base model that judges all texts" },
    spec.models
      .filter((m) => m.role === "target")
      .map((m) => el("option", { value: m.name }, m.title)),
  );
  const run = el(
      "button",
      { type: "button", class: "dp-btn cmp-run", onclick: () => press() },
      "Run all",
    ),
    stop = el(
      "button",
      {
        type: "button",
        class: "dp-btn",
        disabled: true,
        onclick: () => trigger("stop", { id: session }),
      },
      "Stop",
    );
  const more = el(
    "button",
    {
      type: "button",
      class: "dp-btn",
      onclick: () => {
        add(columns[columns.length - 1].form.ask());
        fresh();
      },
    },
    "Add a column",
  );
  const note = el("p", { class: "dp-status", role: "status" }),
    grid = el("div", { class: "cmp-grid" }),
    part = el("section", { class: "dp-card cmp-part", "aria-label": "Where the texts part" }),
    results = el("div", { class: "cmp-results" });
  const tries = el(
    "div",
    { class: "dp-row cmp-presets", role: "group", "aria-label": "Comparisons to try" },
    spec.presets.map((p) =>
      el(
        "button",
        { type: "button", class: "dp-btn", title: p.shows, onclick: () => choose(p) },
        p.name,
      ),
    ),
  );
  root.classList.add("dp-stage");
  root.replaceChildren(
    el(
      "div",
      { class: "dp-card cmp-ask" },
      tries,
      el("label", {}, "Prompt", prompt),
      el(
        "div",
        { class: "dp-row cmp-line" },
        run,
        stop,
        el("label", {}, "Seed", seed),
        el("label", {}, "Judged by", base),
        more,
      ),
      note,
    ),
    grid,
    part,
    results,
  );
  const figures = compareFigures(results);
  let columns = [],
    number = Math.floor(Math.random() * 1e9),
    session = "",
    dirty = false;

  function add(start) {
    if (columns.length >= spec.labels.length) return;
    const label = spec.labels[columns.length],
      stage = el("div", { class: "dp-stage cmp-stage" });
    const remove = el(
      "button",
      {
        type: "button",
        class: "dp-btn cmp-remove",
        "aria-label": `Remove column ${label}`,
        onclick: () => drop(column),
      },
      "✕",
    );
    const column = { label, stage, remove, form: null, key: "" };
    column.form = compareForm(spec, `column ${label}`, start, () => {});
    column.node = el(
      "section",
      { class: "cmp-column", "aria-label": `Column ${label}` },
      el("div", { class: "cmp-head" }, el("b", {}, label), remove),
      column.form.box,
      stage,
    );
    columns.push(column);
    grid.append(column.node);
    limits();
  }
  function drop(column) {
    const kept = columns.filter((c) => c !== column).map((c) => c.form.ask());
    columns = [];
    grid.replaceChildren();
    kept.forEach(add);
    fresh();
  }
  function limits() {
    more.disabled = columns.length >= spec.labels.length;
    for (const c of columns) c.remove.hidden = columns.length <= 2;
  }
  function choose(preset) {
    prompt.value = preset.prompt;
    columns = [];
    grid.replaceChildren();
    preset.columns.forEach(add);
    fresh();
    note.textContent = preset.shows;
  }
  // New columns, new keys: what an earlier press still sends finds no place.
  function fresh() {
    number = (number + 1) % 2 ** 30;
    watchers.clear();
    figures.clear();
    columns.forEach((column, i) => {
      const stage = el("div", { class: "dp-stage cmp-stage" });
      column.stage.replaceWith(stage);
      column.stage = stage;
      column.key = `compare-${number}-${i}`;
      watchers.set(column.key, moved);
      stages.mount(
        column.stage,
        { strategy: column.key, visuals: ["status", "strip", "compare_watch", "candidates"] },
        trigger,
      );
    });
    part.replaceChildren(
      el("h3", {}, "Where the texts part"),
      el(
        "p",
        { class: "dp-empty" },
        "Run all: the tokens common to every text are set apart, and the first that differs is marked with what each run saw there.",
      ),
    );
  }
  function press() {
    fresh();
    busy(true);
    note.className = "dp-status";
    note.textContent = "Decoding one column after the other…";
    trigger("input", {
      number,
      prompt: prompt.value,
      seed: seed.value === "" ? null : Number(seed.value),
      base: base.value,
      columns: columns.map((c) => c.form.ask()),
    });
  }
  function busy(on) {
    run.disabled = on;
    stop.disabled = !on;
  }
  const runs = () => columns.map((c) => store.shown(c.key)).filter((r) => r?.steps.length);
  function moved() {
    if (!dirty) {
      dirty = true;
      requestAnimationFrame(() => {
        dirty = false;
        showParting();
      });
    }
  }
  function showParting() {
    const there = columns.filter((c) => {
        const r = store.shown(c.key);
        return r?.steps.length;
      }),
      list = runs(),
      found = parting(list);
    if (!found) return;
    there.forEach((c) => mark(c, found));
    part.dataset.at = found.at === null ? "" : found.at;
    const first = list[0],
      same = (first.tokens[0] || [])
        .slice(0, found.common)
        .map((t) => first.pieces[t.id] ?? "")
        .join("");
    const lead =
      found.at === null
        ? list.every(ended) && list.length === columns.length
          ? `All texts are the same, token for token: ${found.common} tokens.`
          : `The same so far: ${found.common} tokens.`
        : found.at === 0
          ? "The texts part at the very first token."
          : `The first ${found.common} tokens are the same; at token ${found.at + 1} the texts part.`;
    part.replaceChildren(
      ...[
        el("h3", {}, "Where the texts part"),
        el("p", { class: "cmp-lead" }, lead),
        same ? el("p", { class: "cmp-same" }, visible(same)) : null,
        found.at === null
          ? null
          : el(
              "div",
              { class: "cmp-sides" },
              there.map((c, i) => {
                const seen = partingSide(list[i], found.at);
                return el(
                  "div",
                  {},
                  el(
                    "h4",
                    {},
                    `${c.label} · ${c.form.title()}`,
                    seen.token
                      ? [
                          ": wrote ",
                          el("b", { class: "cmp-word" }, `“${piece(list[i], seen.token.id)}”`),
                        ]
                      : null,
                  ),
                  partingView(list[i], seen),
                );
              }),
            ),
      ].filter(Boolean),
    );
  }
  function mark(column, found) {
    const line = column.stage.querySelector(".dp-strip > div"),
      nodes = line ? [...line.querySelectorAll(".dp-tok")] : [];
    nodes.forEach((node, i) => {
      node.classList.toggle("cmp-common", i < found.common);
      node.classList.toggle("cmp-parted", i === found.at);
    });
  }
  function receive(text) {
    if (!text) return;
    const message = JSON.parse(text);
    if (message.number !== number) return;
    if (message.kind === "begin") session = message.id;
    if (message.kind === "scoring") note.textContent = "The base model reads all texts…";
    if (message.kind === "refused") {
      busy(false);
      note.className = "dp-status bad";
      note.textContent = message.error;
    }
    if (message.kind === "figures") {
      busy(false);
      note.textContent = ["Done.", ...message.notes].join(" ");
      figures.show(message);
    }
  }
  choose(spec.presets[0]);
  return { receive };
};
