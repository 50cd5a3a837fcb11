// What a run can be taken away as: data, code with its check, figures.

import { el, saveAs } from "../../visualizers/shared/dom.mjs";
import { trace } from "../../visualizers/shared/record.mjs";
import { ask } from "./ask.mjs";
import { saveTrace } from "./download.mjs";
import { figurePng, figureSvg, figures, title } from "./figures.mjs";
import { stages } from "./runs.mjs";
import { savedPage } from "./saved_page.mjs";

const COLUMNS = [
  "step",
  "sequence",
  "keep",
  "token_ids",
  "text",
  "raw_logprob",
  "processed_logprob",
  "rank",
  "entropy_nats",
  "logsumexp",
  "forward_passes",
  "elapsed_s",
  "second_token_id",
  "second_text",
  "second_raw_logprob",
];
// A spreadsheet would run a cell that starts with one of these.
const plain = (text) => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);
const cell = (value) =>
  value === null || value === undefined
    ? ""
    : /[",\r\n]/.test(value)
      ? `"${String(value).replace(/"/g, '""')}"`
      : String(value);
function csv(run) {
  const text = (ids) => plain(ids.map((id) => run.pieces[id]).join(""));
  const rows = run.steps.map((s) => {
    const last = s.emit.at(-1),
      own = s.candidates.find((c) => c.token_id === last) || {};
    const others = s.candidates.filter((c) => c.token_id !== last),
      value = (c) => c.raw_logprob ?? -Infinity;
    const second = others.length
      ? others.reduce((best, c) => (value(c) > value(best) ? c : best))
      : null;
    return [
      s.index,
      s.sequence,
      s.keep,
      s.emit.join(" "),
      text(s.emit),
      own.raw_logprob,
      own.processed_logprob,
      own.rank,
      s.entropy,
      s.logsumexp,
      s.forward_passes,
      s.elapsed_s,
      ...(second ? [second.token_id, text([second.token_id]), second.raw_logprob] : ["", "", ""]),
    ];
  });
  return [COLUMNS, ...rows].map((row) => `${row.map(cell).join(",")}\n`).join("");
}
// Code needs no steps: only what was asked for and what came out.
function slim(run) {
  const whole = trace(run),
    ids = new Set([...run.prompt_ids, ...run.outputs.flatMap((o) => o.token_ids)]);
  return {
    ...whole,
    steps: [],
    pieces: Object.fromEntries([...ids].map((id) => [id, run.pieces[id] ?? ""])),
  };
}

export const exporting = {
  title: "Export",
  wide: true,
  empty:
    "After a run: its data, the code that makes it again with transformers alone, and its figures.",
  mount(root, _ctx) {
    let run = null,
      known = null,
      files = null;
    const button = (label, act, hint) =>
      el("button", { type: "button", class: "dp-btn", title: hint, onclick: guard(act) }, label);
    const say = el("p", { class: "dp-note ex-say", role: "status" });
    const badge = el("span", { class: "ex-badge", role: "status", hidden: true });
    const chooser = el("select", { class: "ex-select", "aria-label": "Figure" });
    const code = el("pre", { class: "ex-code", tabindex: 0, "aria-label": "Code" });
    const shown = el(
      "details",
      {
        class: "ex-details",
        ontoggle: async () => {
          if (shown.open && run) await show();
        },
      },
      el("summary", {}, "Show the code"),
      code,
    );
    const buttons = [];
    const name = (ending) => `${run.strategy}-seed${run.seed}${ending}`;
    const stage = () => root.closest(".dp-stage");
    const row = (label, ...nodes) =>
      el(
        "div",
        { class: "ex-row" },
        el("span", { class: "ex-label" }, label),
        el("div", { class: "dp-row" }, nodes),
      );
    const keep = (node) => {
      buttons.push(node);
      return node;
    };
    const check = keep(
      button("Verify", verify, "Run the exported code in a fresh process and compare the tokens"),
    );

    function guard(act) {
      return async () => {
        say.textContent = "";
        try {
          await act();
        } catch (error) {
          say.textContent = `⚠ ${error.plain || "This figure could not be drawn as a picture; another format may work."}`;
        }
      };
    }
    const refuse = (sentence) => {
      throw Object.assign(new Error(sentence), { plain: sentence });
    };
    async function code_files() {
      const asked = run;
      if (files && files.run === asked.id) return files;
      const answer = await ask({ action: "files", trace: slim(asked) });
      if (answer.error) refuse(answer.error);
      return (files = { run: asked.id, ...answer });
    }
    async function show() {
      try {
        code.textContent = (await code_files()).files["run.py"];
      } catch (error) {
        code.textContent = error.plain || "The code could not be fetched.";
      }
    }
    async function verify() {
      const asked = run;
      check.disabled = true;
      mark("busy", "Running the code in a fresh process…");
      const answer = await ask({ action: "verify", trace: slim(asked) });
      check.disabled = false;
      if (asked !== run) return;
      if (answer.error) mark("bad", `Not checked: ${answer.error}`);
      else
        mark(
          answer.equal ? "good" : "bad",
          `${(answer.equal ? "✓ Verified. " : "✗ Not the same. ") + answer.message} It took ${answer.seconds.toFixed(1)} s in a fresh process.`,
        );
    }
    function mark(kind, text) {
      badge.className = `ex-badge ${kind}`;
      badge.textContent = text;
      badge.hidden = false;
    }
    const figure = () =>
      figures(stage())[chooser.selectedIndex] || refuse("There is no figure to save.");
    const slug = (card) =>
      name(
        `-${title(card)
          .toLowerCase()
          .replace(/[^a-z0-9]+/g, "-")}`,
      );
    function list() {
      if (!stage()) return;
      const names = figures(stage()).map(title),
        at = Math.max(0, chooser.selectedIndex);
      if (names.join() === [...chooser.options].map((o) => o.text).join()) return;
      chooser.replaceChildren(...names.map((text) => el("option", {}, text)));
      chooser.selectedIndex = Math.min(at, names.length - 1);
    }
    const visuals = () => stages.list.find((s) => s.root === stage()).visuals;

    root.append(
      row(
        "Data",
        keep(
          button(
            "Trace (.json)",
            () => saveTrace(run),
            "Everything that was recorded; opens again here",
          ),
        ),
        keep(
          button(
            "Steps (.csv)",
            () => saveAs(name(".csv"), "text/csv", csv(run)),
            "One row a step, for a spreadsheet",
          ),
        ),
        keep(
          button(
            "Page (.html)",
            async () => saveAs(name(".html"), "text/html", await savedPage(run, visuals())),
            "All pictures of this run, still alive, in one file without a server",
          ),
        ),
      ),
      row(
        "Code",
        keep(
          button("Script (.py)", async () =>
            saveAs(name(".py"), "text/x-python", (await code_files()).files["run.py"]),
          ),
        ),
        keep(
          button("Notebook (.ipynb)", async () =>
            saveAs(
              name(".ipynb"),
              "application/x-ipynb+json",
              (await code_files()).files["run.ipynb"],
            ),
          ),
        ),
        keep(
          button(
            "All files (.zip)",
            async () =>
              saveAs(
                name(".zip"),
                "application/zip",
                Uint8Array.from(atob((await code_files()).zip), (c) => c.charCodeAt(0)),
              ),
            "Script, notebook, and the folder with the loop where one is needed",
          ),
        ),
        check,
        badge,
      ),
      row(
        "Figures",
        chooser,
        keep(
          button("SVG", async () => {
            const card = figure();
            saveAs(`${slug(card)}.svg`, "image/svg+xml", (await figureSvg(card)).text);
          }),
        ),
        keep(
          button("PNG", async () => {
            const card = figure();
            saveAs(`${slug(card)}.png`, "image/png", await figurePng(card));
          }),
        ),
      ),
      say,
      shown,
    );
    chooser.addEventListener("focus", list);
    return {
      update(now) {
        if (now.id !== known) {
          known = now.id;
          files = null;
          badge.hidden = true;
          say.textContent = "";
          code.textContent = "";
          shown.open = false;
        }
        run = now;
        const idle = run.status === "running" || run.status === "failed";
        for (const b of buttons)
          b.disabled = idle || (b === check && badge.classList.contains("busy") && !badge.hidden);
        if (!idle) setTimeout(list, 300);
      },
      select() {},
      clear() {
        run = null;
      },
    };
  },
};
