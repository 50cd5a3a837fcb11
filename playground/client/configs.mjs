// Settings of a strategy as generation_config.json: save, load, keep several side by side.

import { el, saveAs } from "../../visualizers/shared/dom.mjs";
import { expect } from "./ask.mjs";

const KEY = "dp-configs",
  LIMIT = 12,
  FILE_LIMIT = 100000;
const all = () => {
  try {
    return JSON.parse(localStorage.getItem(KEY)) || {};
  } catch {
    return {};
  }
};
const store = (strategy, list) => {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...all(), [strategy]: list }));
    return true;
  } catch {
    return false;
  }
};
const valid = (c) =>
  c &&
  typeof c.name === "string" &&
  typeof c.text === "string" &&
  c.params &&
  typeof c.params === "object";
const kept = (strategy) => {
  const list = all()[strategy];
  return Array.isArray(list) ? list.filter(valid) : [];
};
const show = (value) =>
  value === null ? "off" : typeof value === "string" ? value : JSON.stringify(value);

export function mountConfigs(root, strategy, send) {
  const ask = (data) => new Promise((done) => send({ id: expect(done), ...data }));
  const say = el("p", { class: "dp-note ec-say", role: "status" });
  const name = el("input", {
    class: "ec-name",
    type: "text",
    maxlength: 40,
    placeholder: "Name",
    "aria-label": "Name of these settings",
  });
  const file = el("input", {
    type: "file",
    accept: ".json,application/json",
    hidden: true,
    onchange: () => file.files[0] && open(file.files[0]),
  });
  const button = (label, act, more) =>
    el("button", { type: "button", class: "dp-btn", onclick: act, ...more }, label);
  const table = el("div", { class: "ec-table" }),
    own = el("p", { class: "dp-note ec-own" });
  const use_own = button("Use them here", () => use(JSON.stringify(own_defaults)), {
    hidden: true,
  });
  let own_defaults = {};
  const box = el(
    "details",
    {
      class: "ec-box",
      ontoggle: () => {
        if (box.open) defaults();
      },
    },
    el("summary", {}, "Saved settings"),
    el("div", { class: "dp-row" }, name, button("Keep", keep)),
    el(
      "div",
      { class: "dp-row" },
      button("Save as file", save, { title: "generation_config.json with every parameter" }),
      button("Load a file…", () => file.click(), { title: "A generation_config.json" }),
    ),
    file,
    say,
    table,
    own,
    use_own,
  );
  root.replaceChildren(box);
  draw();

  const tell = (text, bad) => {
    say.textContent = (bad ? "⚠ " : "") + text;
    say.classList.toggle("bad", !!bad);
  };
  async function written() {
    const answer = await ask({ action: "write" });
    if (answer.error) tell(answer.error, true);
    return answer.error ? null : answer;
  }
  async function keep() {
    const answer = await written();
    if (!answer) return;
    const list = kept(strategy),
      title = name.value.trim() || `Settings ${list.length + 1}`;
    const others = list.filter((c) => c.name !== title);
    if (others.length >= LIMIT)
      return tell(`At most ${LIMIT} settings are kept; remove one first.`, true);
    const stored = store(strategy, [
      ...others,
      { name: title, text: answer.text, params: answer.params },
    ]);
    tell(
      stored
        ? `Kept as “${title}” in this browser.`
        : "This browser does not let the page keep anything.",
      !stored,
    );
    name.value = "";
    draw();
  }
  async function save() {
    const answer = await written();
    if (answer) {
      saveAs("generation_config.json", "application/json", answer.text);
      tell(`Saved generation_config.json for ${strategy}.`);
    }
  }
  async function open(chosen) {
    if (chosen.size > FILE_LIMIT) tell(`The file is larger than ${FILE_LIMIT} bytes.`, true);
    else await use(await chosen.text());
    file.value = "";
  }
  async function use(text) {
    const answer = await ask({ action: "read", text });
    if (answer.error) return tell(answer.error, true);
    const count = Object.keys(answer.params).length;
    tell(
      [
        `In use: ${count ? `${count} parameter${count > 1 ? "s" : ""} other than the default.` : "the defaults."}`,
        ...answer.left_out,
      ].join(" "),
    );
  }
  async function defaults() {
    const answer = await ask({ action: "defaults" });
    if (answer.error) {
      own.textContent = `The model's own defaults: ${answer.error}`;
      use_own.hidden = true;
      return;
    }
    own_defaults = answer.defaults;
    const names = Object.keys(own_defaults);
    own.textContent = names.length
      ? `The model ${answer.model} asks for ${names.map((n) => `${n} = ${show(own_defaults[n])}`).join(", ")}. Nothing of this is used unless you say so.`
      : `The model ${answer.model} has no sampling defaults of its own.`;
    use_own.hidden = !names.length;
  }
  function draw() {
    const list = kept(strategy);
    if (!list.length) {
      table.replaceChildren(
        el(
          "p",
          { class: "dp-note" },
          "Nothing kept yet. Keep two or more to see them side by side.",
        ),
      );
      return;
    }
    const names = [...new Set(list.flatMap((c) => Object.keys(c.params)))];
    const act = (c) =>
      el(
        "td",
        {},
        el(
          "div",
          { class: "ec-acts" },
          button("Use", () => use(c.text), { "aria-label": `Use ${c.name}` }),
          button(
            "×",
            () => {
              store(
                strategy,
                kept(strategy).filter((k) => k.name !== c.name),
              );
              draw();
            },
            { "aria-label": `Remove ${c.name}` },
          ),
        ),
      );
    table.replaceChildren(
      el(
        "div",
        {
          class: "dp-scroll",
          tabindex: 0,
          role: "region",
          "aria-label": "Kept settings side by side",
        },
        el(
          "table",
          { class: "dp-table" },
          el(
            "thead",
            {},
            el(
              "tr",
              {},
              el("th", { scope: "col" }, "Parameter"),
              list.map((c) => el("th", { scope: "col" }, c.name)),
            ),
          ),
          el(
            "tbody",
            {},
            names.map((n) =>
              el(
                "tr",
                {},
                el("th", { scope: "row" }, n),
                list.map((c) =>
                  n in c.params
                    ? el("td", {}, show(c.params[n]))
                    : el("td", { class: "ec-default" }, "default"),
                ),
              ),
            ),
            el("tr", {}, el("th", { scope: "row" }, ""), list.map(act)),
          ),
        ),
      ),
    );
  }
}
