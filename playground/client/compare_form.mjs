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
  const shown = { value: value ?? "", placeholder: param.optional ? "off" : "" };
  if (param.kind !== "number") return el("input", { ...about, type: "text", ...shown });
  const { minimum: min, maximum: max } = param;
  return el("input", { ...about, type: "number", min, max, step: "any", ...shown });
}

function read(param, node) {
  if (param.kind === "flag") return node.checked;
  return param.kind === "number" && node.value !== "" ? Number(node.value) : node.value;
}

class CompareForm {
  // Settings that were changed, by name: what two strategies share keeps its value when one is
  // chosen instead of the other.
  #values = {};
  #fields = [];
  #draft = null;

  constructor(spec, label, start, changed) {
    this.spec = spec;
    this.label = label;
    this.changed = changed;
    this.byName = new Map(spec.strategies.map((s) => [s.name, s]));
    this.box = el("div", { class: "cmp-form" });
    this.#draw(start.strategy, start.params || {}, start.model, start.assistant);
  }

  title() {
    return this.strategy.title;
  }

  // What the controls say, defaults left out.
  ask() {
    const params = {};
    for (const [param, node] of this.#fields) {
      const value = read(param, node);
      if (value !== (param.value ?? "")) params[param.name] = value;
    }
    return {
      strategy: this.strategy.name,
      model: this.model.value,
      assistant: this.#draft ? this.#draft.value : "",
      params,
    };
  }

  #draw(name, given, modelName, draftName) {
    this.strategy = this.byName.get(name) || this.spec.strategies[0];
    this.#fields = [];
    const settings = this.#settings(given);
    this.model = this.#models(modelName);
    this.#draft = null;
    const slot = el("div", { class: "cmp-draft" });
    this.#offerDrafts(slot, draftName);
    this.model.addEventListener("change", () => this.#offerDrafts(slot));
    const strategies = this.spec.strategies.map((s) => [s.name, s.title]);
    const choice = this.#select("Strategy", strategies, this.strategy.name);
    choice.addEventListener("change", () => {
      this.#keep();
      this.#draw(choice.value, this.#values);
      this.changed();
    });
    this.box.replaceChildren(choice, this.model, slot, settings);
  }

  #select(name, options, value) {
    const attrs = { "aria-label": `${name} of ${this.label}`, "data-field": name.toLowerCase() };
    return el(
      "select",
      attrs,
      options.map(([v, title]) => el("option", { value: v, selected: v === value }, title)),
    );
  }

  #models(wanted) {
    const roles = this.strategy.draft === "none" ? ["target", "seq2seq"] : ["target"];
    const models = this.spec.models.filter((m) => roles.includes(m.role));
    const options = models.map((m) => [m.name, m.title]);
    return this.#select("Model", options, wanted || this.strategy.model);
  }

  // Only some drafts fit a model.
  #offerDrafts(slot, wanted) {
    const { draft, assistant } = this.strategy;
    if (draft === "none") return;
    const names = this.spec.drafts[draft]?.[this.model.value] || [];
    const titleOf = (name) => this.spec.models.find((m) => m.name === name)?.title ?? name;
    const options = names.map((name) => [name, `draft: ${titleOf(name)}`]);
    this.#draft = this.#select("Draft", options, wanted || assistant);
    const none = el("p", { class: "dp-note" }, "No draft here fits this model.");
    slot.replaceChildren(names.length ? this.#draft : none);
  }

  // The main parameters, and the others group by group.
  #settings(given) {
    const main = el("div", { class: "cmp-params" });
    const more = el("details", { class: "cmp-more" }, el("summary", {}, "More parameters"));
    this.#params("main", given, main);
    for (const [group, title] of Object.entries(this.spec.groups)) {
      const into = el("div", { class: "cmp-params" });
      if (this.#params(group, given, into)) more.append(el("h5", {}, title), into);
    }
    const summary = el("summary", {}, "Parameters");
    return el("details", { class: "cmp-settings", open: true }, summary, main, more);
  }

  #params(group, given, into) {
    const members = this.strategy.params.filter((p) => p.group === group);
    for (const param of members) {
      const id = `cmp-${++serial}`;
      const value = param.name in given ? given[param.name] : param.value;
      const node = field(param, value, id);
      this.#fields.push([param, node]);
      into.append(el("label", { for: id, title: param.help }, param.label), node);
    }
    return members.length;
  }

  #keep() {
    for (const [param, node] of this.#fields) {
      const value = read(param, node);
      if (value !== param.value) this.#values[param.name] = value;
    }
  }
}

export const compareForm = (spec, label, start, changed) =>
  new CompareForm(spec, label, start, changed);
