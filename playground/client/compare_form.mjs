// The controls of one column of a comparison, made from the declarations of all strategies.

import { el } from "../../visualizers/shared/dom.mjs";

let serial = 0;

function field(param, value, id) {
  const about = { id, title: param.help, "data-param": param.name };
  if (param.kind === "flag")
    return el("input", { ...about, type: "checkbox", checked: value === true });
  if (param.kind === "choice")
    return el(
      "select",
      about,
      param.choices.map((c) => el("option", { value: c, selected: c === value }, c)),
    );
  const shown = value === null || value === undefined ? "" : value;
  const hint = param.optional ? "off" : "";
  if (param.kind === "number")
    return el("input", {
      ...about,
      type: "number",
      min: param.minimum,
      max: param.maximum,
      step: "any",
      value: shown,
      placeholder: hint,
    });
  return el("input", { ...about, type: "text", value: shown, placeholder: hint });
}
function read(param, node) {
  if (param.kind === "flag") return node.checked;
  if (param.kind === "number") return node.value === "" ? "" : Number(node.value);
  return node.value;
}

export const compareForm = (spec, label, start, changed) => {
  const box = el("div", { class: "cmp-form" }),
    byName = new Map(spec.strategies.map((s) => [s.name, s]));
  const select = (name, options, value, onchange) =>
    el(
      "select",
      { "aria-label": `${name} of ${label}`, "data-field": name.toLowerCase(), onchange },
      options.map(([v, t]) => el("option", { value: v, selected: v === value }, t)),
    );
  let strategy = null,
    values = {},
    fields = [],
    model = null,
    draft = null;

  function draw(name, given, modelName, draftName) {
    strategy = byName.get(name) || spec.strategies[0];
    fields = [];
    const params = el("div", { class: "cmp-params" }),
      more = el("details", { class: "cmp-more" }, el("summary", {}, "More parameters"));
    for (const group of ["main", ...Object.keys(spec.groups)]) {
      const members = strategy.params.filter((p) => p.group === group);
      const into = group === "main" ? params : el("div", { class: "cmp-params" });
      for (const param of members) {
        const id = `cmp-${++serial}`,
          node = field(param, param.name in given ? given[param.name] : param.value, id);
        fields.push([param, node]);
        into.append(el("label", { for: id, title: param.help }, param.label), node);
      }
      if (group !== "main" && members.length) more.append(el("h5", {}, spec.groups[group]), into);
    }
    const roles = strategy.draft === "none" ? ["target", "seq2seq"] : ["target"];
    const models = spec.models.filter((m) => roles.includes(m.role)).map((m) => [m.name, m.title]);
    model = select("Model", models, modelName || strategy.model, () => drafts());
    draft = null;
    const slot = el("div", { class: "cmp-draft" });
    function drafts(wanted) {
      if (strategy.draft === "none") return;
      const names = spec.drafts[strategy.draft]?.[model.value] || [];
      draft = select(
        "Draft",
        names.map((n) => [
          n,
          `draft: ${(spec.models.find((m) => m.name === n) || { title: n }).title}`,
        ]),
        wanted || strategy.assistant,
      );
      slot.replaceChildren(
        names.length ? draft : el("p", { class: "dp-note" }, "No draft here fits this model."),
      );
    }
    drafts(draftName);
    box.replaceChildren(
      select(
        "Strategy",
        spec.strategies.map((s) => [s.name, s.title]),
        strategy.name,
        (event) => {
          keep();
          draw(event.target.value, values);
          changed();
        },
      ),
      model,
      slot,
      el(
        "details",
        { class: "cmp-settings", open: true },
        el("summary", {}, "Parameters"),
        params,
        more,
      ),
    );
  }
  // What two strategies share keeps its value when one is chosen instead of the other.
  function keep() {
    for (const [param, node] of fields)
      if (read(param, node) !== param.value) values[param.name] = read(param, node);
  }
  function ask() {
    const params = {};
    for (const [param, node] of fields) {
      const value = read(param, node);
      if (value !== (param.value ?? "")) params[param.name] = value;
    }
    return {
      strategy: strategy.name,
      model: model.value,
      assistant: draft ? draft.value : "",
      params,
    };
  }
  draw(start.strategy, start.params || {}, start.model, start.assistant);
  return { box, ask, title: () => strategy.title };
};
