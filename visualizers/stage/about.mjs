// View of what was run: prompt, model, seed and settings. Saved pages and printouts show it.
import { el } from "../shared/dom.mjs";
import { isNothing } from "../shared/record.mjs";
import { visible } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

const FROM = {
  shipped: tr("came along"),
  hub: tr("from the hub"),
  folder: tr("a folder of its machine"),
  function: tr("a function in Python"),
};

const said = (value) => (typeof value === "string" ? value : JSON.stringify(value));

const named = (name, ...what) => [el("dt", {}, name), el("dd", {}, what)];

/** @param {any} info */
const modelOf = ({ id, dtype, device, revision }) =>
  [id, dtype, device, revision && tr("revision {id}", { id: revision.slice(0, 12) })]
    .filter(Boolean)
    .join(" · ");

/**
 * Every setting of the run that is not null, by its name in transformers.
 * @param {Run} run
 */
function allOf(run) {
  const set = Object.entries(run.config).filter(([, value]) => value !== null);
  return el(
    "details",
    { class: "ab-all" },
    el("summary", {}, tr("All settings")),
    el(
      "dl",
      {},
      set.flatMap(([name, value]) => named(name, said(value))),
    ),
  );
}

// Custom generation method of a run: name, source, revision and hash of its code.
/** @param {any} info */
export const methodOf = ({ name, source, sha256, revision }, digits = 64) =>
  [
    name,
    FROM[source],
    revision && `commit ${revision.slice(0, 12)}`,
    sha256 && `sha256 ${sha256.slice(0, digits)}`,
  ]
    .filter(Boolean)
    .join(" · ");

// The messages of a chat by role, and the extra arguments of its template.
/** @param {Run} run */
function talkOf({ messages, template }) {
  const lines = messages.map(({ role, content }) =>
    el("li", {}, `${role}: `, el("q", {}, visible(said(content ?? "")))),
  );
  const given = Object.keys(template ?? {}).length ? el("p", {}, said(template)) : null;
  return [el("ol", { class: "ab-talk" }, lines), given];
}

/** @param {Run} run */
function factsOf(run) {
  const versions = Object.entries(run.versions ?? {}).map(
    ([name, version]) => `${name} ${version}`,
  );
  const changed = (run.changed ?? []).map(([label, value]) => `${label} ${value}`);
  return el(
    "dl",
    {},
    run.prompt === null ? null : named(tr("Prompt"), el("q", {}, visible(run.prompt))),
    run.messages ? named(tr("Messages"), ...talkOf(run)) : null,
    named(tr("Model"), modelOf(run.model)),
    run.method ? named(tr("Method"), methodOf(run.method)) : null,
    run.assistant ? named(tr("Draft model"), modelOf(run.assistant)) : null,
    named(tr("Seed"), String(run.seed)),
    run.changed ? named(tr("Settings"), changed.join(", ") || tr("the defaults")) : null,
    versions.length ? named(tr("Made with"), versions.join(", ")) : null,
  );
}

/** @type {ViewSpec} */
export const about = {
  title: tr("What was run"),
  mount(root) {
    let known = "";
    return {
      update(run) {
        const key = `${run.id} ${run.changed}`;
        if (!run.model || isNothing(run) || key === known) return;
        known = key;
        root.replaceChildren(factsOf(run), allOf(run));
      },
      select() {},
      clear() {
        known = "";
      },
    };
  },
};
