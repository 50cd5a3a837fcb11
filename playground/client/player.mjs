// Plays a recorded trace: every visual of its strategy, step by step, without a model.

import { el } from "../../visualizers/shared/dom.mjs";
import { stages, store } from "./runs.mjs";

const SPEEDS = [
    ["0.5×", 0.5],
    ["1×", 1],
    ["2×", 2],
    ["4×", 4],
    ["16×", 16],
  ],
  STEP_MS = 220;

export const player = (root, trigger) => {
  const title = el("p", { class: "pl-title" }),
    stage = el("div", { class: "dp-stage" });
  const range = el("input", {
    type: "range",
    min: 0,
    value: 0,
    "aria-label": "Steps shown",
    oninput: () => {
      pause();
      go(+range.value);
    },
  });
  const label = el("output", {}),
    play = el(
      "button",
      { type: "button", class: "dp-btn pl-play", onclick: () => toggle() },
      "▶ Play",
    );
  const speed = el(
    "select",
    { "aria-label": "Speed" },
    SPEEDS.map(([name, value]) => el("option", { value, selected: value === 1 }, name)),
  );
  const button = (text, name, act) =>
    el(
      "button",
      { type: "button", class: "dp-btn", "aria-label": name, title: name, onclick: act },
      text,
    );
  const bar = el(
    "div",
    {
      class: "dp-scrub pl-bar",
      role: "group",
      tabindex: 0,
      "aria-label": "Player: space plays and pauses, arrow keys step, Home and End go to the ends",
    },
    button("«", "To the start", () => {
      pause();
      go(0);
    }),
    button("←", "One step back", () => {
      pause();
      go(at - 1);
    }),
    play,
    button("→", "One step on", () => {
      pause();
      go(at + 1);
    }),
    button("»", "To the end", () => {
      pause();
      go(total());
    }),
    range,
    label,
    speed,
  );
  const shell = el("div", { class: "dp-card pl-shell" }, title, bar);
  shell.hidden = true;
  root.replaceChildren(shell, stage);
  let run = null,
    at = 0,
    timer = null;
  const total = () => (run ? run.source.steps.length : 0);
  function go(count) {
    if (!run) return;
    at = Math.max(0, Math.min(total(), count));
    store.rewind(run, at, "replayed");
    range.value = at;
    label.textContent = `${at} of ${total()} steps`;
  }
  function pause() {
    clearTimeout(timer);
    timer = null;
    play.textContent = "▶ Play";
  }
  function tick() {
    if (at >= total()) return pause();
    go(at + 1);
    timer = setTimeout(tick, STEP_MS / Number(speed.value));
  }
  function toggle() {
    if (timer) return pause();
    if (at >= total()) go(0);
    play.textContent = "❚❚ Pause";
    timer = setTimeout(tick, 0);
  }
  root.addEventListener("keydown", (event) => {
    const field = event.target.closest("select, textarea, input:not([type=range])"),
      inside = event.target.closest(".dp-stage");
    if (!run || field || inside) return;
    if (event.key === " " && event.target.tagName !== "BUTTON") toggle();
    else if (event.key === "ArrowLeft") {
      pause();
      go(at - 1);
    } else if (event.key === "ArrowRight") {
      pause();
      go(at + 1);
    } else if (event.key === "Home") {
      pause();
      go(0);
    } else if (event.key === "End") {
      pause();
      go(total());
    } else return;
    event.preventDefault();
  });
  return {
    receive(text) {
      if (!text) return;
      const { trace, visuals, name } = JSON.parse(text);
      pause();
      run = store.showTrace("replay", trace, "replayed");
      stages.mount(stage, { strategy: "replay", visuals }, trigger);
      shell.hidden = false;
      title.textContent = name;
      range.max = total();
      go(total());
      bar.focus({ preventScroll: true });
    },
  };
};
