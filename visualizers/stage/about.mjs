// View of what was run: prompt, model, seed and settings. Saved pages and printouts show it.

import { SERVER_TITLES } from "../served/words.mjs";
import { roleName } from "../shared/chat_roles.mjs";
import { el } from "../shared/dom.mjs";
import { isRefusedRun } from "../shared/record.mjs";
import { makeVisible } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @type {Record<string, string>} */
const SOURCE_TEXT = {
  shipped: tr("came along"),
  hub: tr("from the hub"),
  folder: tr("a folder of its machine"),
  function: tr("a function in Python"),
};

/** @param {unknown} value */
const toText = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/**
 * @param {string} name
 * @param {...Content} what
 */
const createEntry = (name, ...what) => [el("dt", {}, name), el("dd", {}, what)];

/** @param {any} info */
const modelSummary = ({ id, dtype, device, host, revision }) =>
  [
    id,
    dtype,
    host ? tr("on {host}", { host }) : device,
    revision && tr("revision {id}", { id: revision.slice(0, 12) }),
  ]
    .filter(Boolean)
    .join(" · ");

/**
 * Every setting of the run that is not null, by its name in transformers.
 * @param {Run} run
 */
function createAllSettings(run) {
  const set = Object.entries(run.config).filter(([, value]) => value !== null);
  return el(
    "details",
    { class: "ab-all" },
    el("summary", {}, tr("All settings")),
    el(
      "dl",
      {},
      set.flatMap(([name, value]) => createEntry(name, toText(value))),
    ),
  );
}

// Custom generation method of a run: name, source, revision and hash of its code.
/** @param {any} info */
export const methodSummary = ({ name, source, sha256, revision }, digits = 64) =>
  [
    name,
    SOURCE_TEXT[source],
    revision && `commit ${revision.slice(0, 12)}`,
    sha256 && `sha256 ${sha256.slice(0, digits)}`,
  ]
    .filter(Boolean)
    .join(" · ");

// The messages of a chat by role, and the extra arguments of its template.
/** @param {Run} run */
function createChat({ messages, template }) {
  const lines = (messages ?? []).map(({ role, content }) =>
    el("li", {}, `${roleName(String(role))}: `, el("q", {}, makeVisible(toText(content ?? "")))),
  );
  const given = Object.keys(template ?? {}).length ? el("p", {}, toText(template)) : null;
  return [el("ol", { class: "ab-chat" }, lines), given];
}

/** @param {Run} run */
function createFacts(run) {
  const versions = Object.entries(run.versions ?? {}).map(
    ([name, version]) => `${name} ${version}`,
  );
  const changed = (run.changed ?? []).map(([label, value]) => `${label} ${value}`);
  return el(
    "dl",
    {},
    run.prompt === null ? null : createEntry(tr("Prompt"), el("q", {}, makeVisible(run.prompt))),
    run.messages ? createEntry(tr("Messages"), ...createChat(run)) : null,
    createEntry(tr("Model"), modelSummary(run.model)),
    run.method ? createEntry(tr("Method"), methodSummary(run.method)) : null,
    run.assistant ? createEntry(tr("Draft model"), modelSummary(run.assistant)) : null,
    run.served
      ? createEntry(tr("Server"), SERVER_TITLES[run.served.server])
      : createEntry(tr("Seed"), String(run.seed)),
    run.changed ? createEntry(tr("Settings"), changed.join(", ") || tr("the defaults")) : null,
    versions.length ? createEntry(tr("Made with"), versions.join(", ")) : null,
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
        if (!run.model || isRefusedRun(run) || key === known) return;
        known = key;
        root.replaceChildren(createFacts(run), createAllSettings(run));
      },
      select() {},
      clear() {
        known = "";
      },
    };
  },
};
