// Presentation mode: one card on the whole screen, in large letters, with the keys of a clicker.
import { button, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

const ON = ["PageDown", "ArrowRight", " ", "Enter"];
const BACK = ["PageUp", "ArrowLeft"];
/** Font sizes in pixels. @type {[number, number]} */
const LETTERS = [24, 44];
/** Zoom of the pictures. @type {[number, number]} */
const PICTURES = [0.5, 2.2];
/** The pictures' share of the width. @type {[number, number]} */
const BESIDE = [0.25, 0.58];
/** On a phone the card is read up close and scrolled. */
const NARROW = "(max-width: 700px)";
const TRIES = 8;
const REDRAW_MS = 120;

/**
 * Present a lesson on the whole screen until Escape.
 * @param {import("../lessons/lesson.mjs").LessonView} view
 * @param {import("./class_follower.mjs").ClassLed} led the class that bets along, if there is one
 * @param {() => void} left called at the end
 */
export function present(view, led, left) {
  const { node } = view;
  const home = el("span", {});
  node.before(home);
  const leave = button(tr("Leave (Esc)"), () => end(), { class: "dp-btn ls-leave" });
  const screen = el(
    "div",
    {
      class: "ls-present",
      role: "dialog",
      "aria-modal": "true",
      "aria-label": view.lesson.about.title,
      tabindex: -1,
    },
    node,
    led.screen,
    leave,
  );
  (document.querySelector(".gradio-container") ?? document.body).append(screen);
  document.documentElement.classList.add("ls-presenting");
  const fit = fitting(screen);
  const watcher = new ResizeObserver(fit);
  watcher.observe(screen);
  const changes = new MutationObserver(fit);
  changes.observe(node, { childList: true, subtree: true });
  screen.requestFullscreen?.().catch(() => {});
  const keys = (event) => press(event, view, end);
  const closed = () => document.fullscreenElement || end();
  addEventListener("keydown", keys, true);
  document.addEventListener("fullscreenchange", closed);
  let over = false;
  function end() {
    if (over) return;
    over = true;
    removeEventListener("keydown", keys, true);
    document.removeEventListener("fullscreenchange", closed);
    watcher.disconnect();
    changes.disconnect();
    if (document.fullscreenElement) document.exitFullscreen().catch(() => {});
    document.documentElement.classList.remove("ls-presenting");
    for (const scenes of node.querySelectorAll(".ls-scenes")) scenes.removeAttribute("style");
    led.node.append(led.screen);
    home.replaceWith(node);
    screen.remove();
    left();
  }
  screen.focus();
  fit();
}

// A clicker sends PageDown and PageUp. Other keys stay with a focused control.
function press(event, view, end) {
  if (event.key === "Escape") {
    event.preventDefault();
    event.stopPropagation();
    return end();
  }
  const clicker = event.key.startsWith("Page");
  const own = event.target.closest?.(
    "input, textarea, select, button, summary, .dp-stage, [role=tab]",
  );
  if (own && !clicker) return;
  if (ON.includes(event.key)) {
    if (view.view && !view.view.revealed) view.reveal({ focus: false });
    else view.go(view.at + 1, { focus: false });
  } else if (BACK.includes(event.key)) view.go(view.at - 1, { focus: false });
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** Return whether a node's content is cut off or has to be scrolled. */
const overflows = (node) =>
  node.scrollHeight > node.clientHeight + 1 || node.scrollWidth > node.clientWidth + 1;

// Apply the largest size between two limits with which everything fits, by bisection.
function largest([low, high], fits) {
  for (let i = 0; i < TRIES; i++) {
    const middle = (low + high) / 2;
    if (fits(middle)) low = middle;
    else high = middle;
  }
  fits(low);
}

// Returns a function that fits a card to the screen. Letters come first, at least 24 pixels, then
// pictures. If the text still overflows its column, the column gets wider.
function fitting(screen) {
  let timer = null;
  const fit = () => {
    timer = null;
    const [body, words, scenes] = [".ls-body", ".ls-words", ".ls-scenes"].map((name) =>
      screen.querySelector(name),
    );
    if (!body) return;
    const revealed = body.querySelector(".ls-card.revealed") !== null;
    scenes?.style.removeProperty("zoom");
    if (matchMedia(NARROW).matches) {
      screen.style.fontSize = `${LETTERS[0]}px`;
      return;
    }
    const card = revealed ? words : body;
    const beside = (share) => screen.style.setProperty("--ls-beside", String(share));
    beside(BESIDE[1]);
    largest(LETTERS, (size) => {
      screen.style.fontSize = `${size}px`;
      return !overflows(card);
    });
    if (!revealed) return;
    if (overflows(words))
      largest(BESIDE, (share) => {
        beside(share);
        return !overflows(words);
      });
    largest(PICTURES, (zoom) => {
      scenes.style.zoom = String(zoom);
      return !overflows(scenes);
    });
  };
  // Wait: the stages draw in the next frames.
  return () => {
    clearTimeout(timer);
    timer = setTimeout(fit, REDRAW_MS);
  };
}
