// Continue a run from any of its steps with another token or a typed text, and the family that grows from it.

import { partingSide, partingView } from "../../visualizers/compare/parting.mjs";
import { el } from "../../visualizers/shared/dom.mjs";
import { percent, piece, prob, visible } from "../../visualizers/shared/text.mjs";
import { compareForm } from "./compare_form.mjs";
import { saveTrace } from "./download.mjs";
import { store } from "./runs.mjs";
import { declared } from "./spec.mjs";
import { whenThere } from "./waiting.mjs";

// Runs of a family stay here when the store has let go of them.
const members = new Map(),
  KEPT = 60,
  views = new Set(),
  waiting = new Map();
let send = null,
  number = 0;

const isBeam = (step) => !!step.detail && step.detail.kind === "beam";
const quoted = (run, ids) => `‘${visible(ids.map((id) => run.pieces[id] ?? `#${id}`).join(""))}’`;
const titleOf = (name) => {
  const found = declared().strategies.find((s) => s.name === name);
  return found ? found.title : name;
};
const signed = (x) => x.toFixed(2).replace("-", "−");

// The new tokens before the one a step decided: exactly what a branch keeps.
function keptBy(run, step, node) {
  if (node) {
    const path = [];
    for (let i = step.index, at = node; i-- > 0; ) {
      at = run.steps[i].detail.pool.find((n) => n.node_id === at.parent_id);
      path.unshift(at.token_id);
    }
    return path;
  }
  const before = [];
  for (const s of run.steps.slice(0, step.index))
    if (s.sequence === step.sequence) before.splice(s.keep, Infinity, ...s.emit);
  return [...before.slice(0, step.keep), ...step.emit.slice(0, -1)];
}
function choicesOf(_run, step) {
  if (!isBeam(step))
    return step.candidates.map((c) => ({
      token_id: c.token_id,
      p: prob(c.raw_logprob),
      node: null,
    }));
  return [...step.detail.pool]
    .sort((a, b) => a.group - b.group || a.rank - b.rank)
    .map((node) => ({ token_id: node.token_id, p: prob(node.logprob), node }));
}

function adopt(run) {
  if (members.has(run.id)) return;
  members.set(run.id, run);
  while (members.size > KEPT) members.delete(members.keys().next().value);
}
const parentOf = (run) => (run.parent ? members.get(run.parent.run_id) : undefined);
const rootOf = (run) => {
  let at = run;
  for (let up; (up = parentOf(at)); ) at = up;
  return at;
};
// A run, then each of its branches with theirs.
function lineage(run, depth = 0) {
  const children = [...members.values()].filter((m) => m.parent && m.parent.run_id === run.id);
  return [[run, depth], ...children.flatMap((child) => lineage(child, depth + 1))];
}
const told = (run) =>
  run.parent
    ? `${quoted(run, run.parent.token_ids) + (run.parent.text === null ? "" : ", typed,")} at step ${run.parent.step + 1}`
    : "the first run";
const nameOf = (run) => `${titleOf(run.strategy)}, ${told(run)}`;
function words(run) {
  const ids = (run.tokens[0] || []).slice(0, 14).map((t) => t.id);
  return (
    visible(ids.map((id) => run.pieces[id] ?? "").join("")) +
    ((run.tokens[0] || []).length > 14 ? "…" : "")
  );
}
function figure(run) {
  if (run.status === "running") return "running";
  if (run.status === "failed") return "failed";
  if (run.metrics && run.metrics.mean_logprob !== undefined)
    return `log p ${signed(run.metrics.mean_logprob)} a token`;
  const score = run.outputs[0]?.score;
  return score === null || score === undefined ? "" : `score ${signed(score)}`;
}
function refresh() {
  for (const view of views)
    if (view.root.isConnected) view.draw();
    else views.delete(view);
}

// Tabs belong to Gradio: pressing their buttons is the one way in.
function openTab(run) {
  const strategy = declared().strategies.find((s) => s.name === run.strategy);
  if (!strategy) return;
  const press = (button) => {
    if (button.getAttribute("aria-selected") !== "true") button.click();
  };
  for (const id of [`family-${strategy.family}`, `tab-${strategy.name}`])
    whenThere(() => document.getElementById(`${id}-button`), press);
}
function open(run) {
  adopt(run);
  store.show(run.strategy, run);
  openTab(run);
}

// What was seen where a text's token stands: by the run that wrote it, or by the one it continues.
function seen(run, at) {
  const own = at - run.prompt_ids.length,
    up = parentOf(run),
    id = run.prompt_ids[at];
  if (own >= 0) return [run, partingSide(run, own)];
  if (!up) return [run, { token: { id }, words: "What was seen there is not on this page." }];
  const place = at - up.prompt_ids.length,
    step = up.steps[run.parent.step];
  if (place > run.parent.kept) return [run, { token: { id }, words: "Typed." }];
  if (isBeam(step) && place >= 0) {
    const path = new Set(),
      note = "The best of all beams at this depth; ▸ is the text that was continued.";
    for (let i = 0, above = -1; i <= place; i++) {
      const node = up.steps[i].detail.pool.find(
        (n) => n.parent_id === above && n.token_id === run.prompt_ids[up.prompt_ids.length + i],
      );
      if (!node) break;
      path.add(node.node_id);
      above = node.node_id;
    }
    return [
      up,
      {
        token: { id },
        step: up.steps[place],
        pool: [...up.steps[place].detail.pool]
          .sort((a, b) => b.sum_logprobs - a.sum_logprobs)
          .slice(0, 6),
        path,
        note,
      },
    ];
  }
  if (place === run.parent.kept)
    return [
      run.parent.text === null ? up : { ...up, pieces: { ...up.pieces, ...run.pieces } },
      { token: { id }, step, list: step.candidates.slice(0, 6), chosen: id },
    ];
  if (place >= 0 && step.sequence)
    return [
      up,
      { token: { id }, words: `Written by output ${step.sequence + 1} of the run it continues.` },
    ];
  return seen(up, at);
}
const wholeOf = (run) => [...run.prompt_ids, ...(run.tokens[0] || []).map((t) => t.id)];
function together(pair) {
  const ids = pair.map(wholeOf),
    from = Math.min(...pair.map((run) => rootOf(run).prompt_ids.length));
  let at = 0;
  while (at < Math.max(...ids.map((list) => list.length)) && ids[0][at] === ids[1][at]) at++;
  const same = at >= ids[0].length && at >= ids[1].length,
    common = at - from;
  const lead = same
    ? "Both texts are the same, token for token."
    : common <= 0
      ? "The texts part at the very first token."
      : `The first ${common} tokens are the same; at token ${common + 1} the texts part.`;
  return [
    el("p", { class: "cmp-lead" }, lead),
    el(
      "div",
      { class: "cmp-sides" },
      pair.map((run, i) => {
        const text = (a, b) =>
          visible(
            ids[i]
              .slice(a, b)
              .map((id) => run.pieces[id] ?? `#${id}`)
              .join(""),
          );
        const [owner, found] = same
          ? [run, null]
          : at < ids[i].length
            ? seen(run, at)
            : [run, { words: run.status === "running" ? "Not there yet." : "The text had ended." }];
        return el(
          "div",
          {},
          el("h4", {}, nameOf(run)),
          el(
            "p",
            { class: "fm-text" },
            el("span", { class: "same" }, text(from, at)),
            el("b", {}, text(at, at + 1)),
            text(at + 1),
          ),
          el("p", { class: "dp-note" }, figure(run)),
          found ? partingView(owner, found) : null,
        );
      }),
    ),
  ];
}

export const family = {
  title: "Continue from here",
  wide: true,
  empty: "After a run: choose another token at any step, or type a text, and see where it leads.",
  mount(root, ctx) {
    let run = null,
      wanted = null,
      listed = "",
      form = null,
      busy = 0,
      rows = new Map(),
      checked = new Set();
    const what = el("select", {
      "aria-label": "Token to continue with",
      onchange: () => {
        typed.value = "";
        preview();
      },
    });
    const typed = el("input", {
      type: "text",
      maxlength: 2000,
      placeholder: "or type a text",
      "aria-label": "Text to continue with",
      oninput: () => preview(),
      onkeydown: (e) => {
        if (e.key === "Enter") {
          e.preventDefault();
          start();
        }
      },
    });
    const go = el(
      "button",
      { type: "button", class: "dp-btn fm-go", onclick: () => start() },
      "Continue",
    );
    const label = el("span", { class: "fm-label" }),
      chip = el("p", { class: "fm-chip" }),
      say = el("p", { class: "dp-status", role: "status" });
    const name = el("b", {}),
      slot = el("div", {}),
      seed = el("input", { type: "number", min: 0, step: 1, "aria-label": "Seed of the branch" });
    const settings = el(
      "details",
      {
        class: "fm-settings",
        ontoggle: () => {
          if (settings.open) ready();
        },
      },
      el("summary", {}, "With ", name),
      slot,
    );
    const ask = el(
      "div",
      { class: "fm-ask" },
      el("div", { class: "dp-row fm-line" }, label, what, typed, go),
      chip,
      settings,
      say,
    );
    const tree = el("ul", { class: "fm-tree", "aria-label": "The family of this run" }),
      result = el("div", { class: "fm-result" });
    const compare = el(
      "button",
      {
        type: "button",
        class: "dp-btn",
        onclick: () => {
          result.replaceChildren(...together([...checked].map((id) => members.get(id))));
        },
      },
      "Compare the two that are ticked",
    );
    const family = el(
      "div",
      { class: "fm-family", hidden: true },
      el("h4", {}, "The family of this run"),
      tree,
      el("div", { class: "dp-row" }, compare),
      result,
    );
    root.classList.add("fm-root");
    root.append(ask, family);
    ctx.fork = (choice) => {
      wanted = choice;
      listed = "";
      typed.value = "";
      ctx.select(choice.step);
      requestAnimationFrame(() =>
        requestAnimationFrame(() => {
          list();
          ask.scrollIntoView({ block: "nearest" });
          go.focus({ preventScroll: true });
        }),
      );
    };

    const choices = () => choicesOf(run, run.steps[run.selected]);
    function list() {
      if (!run || run.selected === null || !run.steps[run.selected]) return;
      const step = run.steps[run.selected],
        key = `${run.id}:${step.index}`;
      label.textContent = `At step ${step.index + 1} put`;
      if (key === listed) return;
      listed = key;
      const all = choices(),
        written = step.emit[step.emit.length - 1];
      const option = (c, i) =>
        el(
          "option",
          { value: i, disabled: run.eos_token_ids.includes(c.token_id) },
          `${
            (c.node
              ? `${
                  keptBy(run, step, c.node)
                    .slice(-1)
                    .map((id) => piece(run, id))
                    .join("") || "prompt"
                } → `
              : "") + piece(run, c.token_id)
          }   ${percent(c.p)}`,
        );
      what.replaceChildren(...all.map(option));
      const usable = (c) => !run.eos_token_ids.includes(c.token_id),
        mine = wanted && wanted.step === step.index ? wanted : null;
      let at = mine
        ? all.findIndex(
            (c) =>
              c.token_id === mine.token_id &&
              (mine.node_id === undefined || (c.node && c.node.node_id === mine.node_id)),
          )
        : -1;
      if (at < 0) at = all.findIndex((c) => usable(c) && c.token_id !== written);
      what.selectedIndex = at;
      preview();
    }
    function preview() {
      const choice = choices()[what.selectedIndex],
        step = run.steps[run.selected],
        kept = keptBy(run, step, isBeam(step) ? choice?.node : null);
      const before = [...run.prompt_ids, ...kept].slice(-12),
        more = run.prompt_ids.length + kept.length > 12;
      chip.replaceChildren(
        "Continues ",
        el(
          "span",
          { class: "fm-kept" },
          (more ? "…" : "") + visible(before.map((id) => run.pieces[id] ?? `#${id}`).join("")),
        ),
        el(
          "b",
          {},
          typed.value
            ? visible(typed.value)
            : choice
              ? visible(run.pieces[choice.token_id] ?? `#${choice.token_id}`)
              : "",
        ),
      );
    }
    // The controls of a branch: those of its parent until they are changed.
    function ready() {
      if (form) return form;
      const known = declared().models.some((m) => m.name === run.model.id),
        params = {};
      for (const [key, value] of Object.entries(run.config))
        if (value !== null) params[key] = typeof value === "object" ? JSON.stringify(value) : value;
      const spec = known
        ? declared()
        : {
            ...declared(),
            models: [
              ...declared().models,
              { name: run.model.id, title: run.model.id, role: "target" },
            ],
          };
      form = compareForm(
        spec,
        "branch",
        {
          strategy: run.strategy,
          params,
          model: run.model.id,
          assistant: run.assistant ? run.assistant.id : "",
        },
        () => {
          name.textContent = form.title();
        },
      );
      seed.value = run.seed;
      slot.replaceChildren(form.box, el("label", { class: "fm-seed" }, "Seed ", seed));
      return form;
    }
    function start() {
      if (go.disabled) return;
      const choice = choices()[what.selectedIndex],
        step = run.steps[run.selected];
      if (!typed.value && !choice) return problem("Choose a token or type a text.");
      const kept = keptBy(run, step, isBeam(step) && choice ? choice.node : null),
        ids = [...run.prompt_ids, ...kept],
        controls = ready().ask();
      adopt(run);
      busy = ++number;
      go.disabled = true;
      say.className = "dp-status";
      say.textContent = "Waiting for the model…";
      waiting.set(busy, (answer) => {
        go.disabled = blocked();
        say.textContent = "";
        if (answer.error) return problem(answer.error);
        typed.value = "";
        wanted = null;
        if (controls.strategy !== ctx.strategy) openTab(controls);
        refresh();
      });
      send({
        number: busy,
        prompt_ids: run.prompt_ids,
        kept_ids: kept,
        step: step.index,
        run_id: run.id,
        end_ids: run.eos_token_ids,
        pieces: Object.fromEntries(ids.map((id) => [id, run.pieces[id]])),
        ...(typed.value ? { text: typed.value } : { token_id: choice.token_id }),
        ...controls,
        seed: seed.value === "" ? null : Number(seed.value),
      });
    }
    function problem(sentence) {
      say.className = "dp-status bad";
      say.textContent = sentence;
    }
    const blocked = () =>
      !run || !send || !run.model.id || !!run.model.is_encoder_decoder || !run.steps.length;

    function row(member) {
      const tick = el("input", {
        type: "checkbox",
        onchange: () => {
          if (tick.checked) checked.add(member.id);
          else checked.delete(member.id);
          draw();
        },
      });
      const title = el("b", {}),
        where = el("span", { class: "fm-where" }),
        text = el("span", { class: "fm-words" }),
        value = el("span", { class: "fm-value" });
      const pick = el(
        "button",
        { type: "button", class: "fm-open", onclick: () => open(member) },
        title,
        " ",
        where,
        " ",
        text,
      );
      const save = el(
        "button",
        {
          type: "button",
          class: "dp-btn",
          title: "Save the trace of this branch",
          onclick: () => saveTrace(member),
        },
        "Trace",
      );
      const item = el("li", {}, tick, pick, value, save);
      return {
        item,
        draw(depth, now) {
          item.style.setProperty("--depth", depth);
          item.classList.toggle("child", depth > 0);
          title.textContent = titleOf(member.strategy);
          where.textContent =
            member.parent && !parentOf(member)
              ? `${told(member)} of a run that is not on this page`
              : told(member);
          text.textContent = words(member);
          value.textContent = figure(member);
          tick.setAttribute("aria-label", `Compare ${nameOf(member)}`);
          pick.setAttribute("aria-label", `Open ${nameOf(member)}`);
          save.setAttribute("aria-label", `Save the trace of ${nameOf(member)}`);
          pick.toggleAttribute("aria-current", now);
          item.classList.toggle("now", now);
          save.disabled = member.status === "running";
          tick.checked = checked.has(member.id);
        },
      };
    }
    function draw() {
      const list = run && members.has(run.id) ? lineage(rootOf(run)) : [];
      family.hidden = list.length < 2 && !run?.parent;
      const ids = new Set(list.map(([member]) => member.id));
      for (const [id, made] of rows)
        if (!ids.has(id)) {
          made.item.remove();
          rows.delete(id);
          checked.delete(id);
          result.replaceChildren();
        }
      list.forEach(([member, depth], i) => {
        if (!rows.has(member.id)) rows.set(member.id, row(member));
        const made = rows.get(member.id);
        if (tree.children[i] !== made.item) tree.insertBefore(made.item, tree.children[i] || null);
        made.draw(depth, member === run);
      });
      compare.disabled = checked.size !== 2;
    }
    views.add({ root, draw });
    return {
      update(now) {
        if (!run || now.id !== run.id) {
          run = now;
          form = null;
          slot.replaceChildren();
          settings.open = false;
          say.textContent = "";
          name.textContent = `${titleOf(run.strategy)}, the settings of this run`;
          listed = "";
        }
        if (run.parent && !members.has(run.id)) {
          adopt(run);
          refresh();
        }
        go.disabled = blocked() || waiting.has(busy);
        if (run.model.is_encoder_decoder)
          problem(
            "This model reads its prompt apart from the text it writes: it cannot be continued from a step.",
          );
        if (members.has(run.id)) draw();
        else family.hidden = true;
      },
      select: () => list(),
      clear() {
        listed = "";
      },
    };
  },
};

export function connectFamily(f) {
  send = f;
  return { receive };
}
function receive(text) {
  if (!text) return;
  const message = JSON.parse(text),
    done = waiting.get(message.number);
  waiting.delete(message.number);
  if (done) done(message);
}
