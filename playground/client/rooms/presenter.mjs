// Presentation mode: one card on the whole screen, in large letters, with the keys of a clicker.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

const FORWARD_KEYS = ["PageDown", "ArrowRight", " ", "Enter"];
const BACK_KEYS = ["PageUp", "ArrowLeft"];
/** Font sizes in pixels. @type {[number, number]} */
const FONT_SIZES = [24, 44];
/** Zoom of the pictures. @type {[number, number]} */
const PICTURE_ZOOMS = [0.5, 2.2];
/** The pictures' share of the width. @type {[number, number]} */
const SCENE_SHARES = [0.25, 0.58];
/** On a phone the card is read up close and scrolled. */
const NARROW_QUERY = "(max-width: 700px)";
const SEARCH_STEPS = 8;
const REDRAW_MS = 120;

/**
 * Present a lesson on the whole screen until Escape.
 * @param {import("../lessons/lesson.mjs").LessonView} view
 * @param {import("./class_follower.mjs").ClassFollower} led the class that bets along, if there is one
 * @param {() => void} left called at the end
 */
export function presentLesson(view, led, left) {
  const { node } = view;
  const home = el("span", {});
  node.before(home);
  const bar = createBar(view, led, () => end());
  const screen = el(
    "div",
    {
      class: "ls-present",
      role: "dialog",
      "aria-modal": "true",
      "aria-label": view.lesson.about.title,
      tabindex: -1,
    },
    bar.node,
    node,
    led.screen,
  );
  (document.querySelector(".gradio-container") ?? document.body).append(screen);
  const release = makeRestInert(screen);
  document.documentElement.classList.add("ls-presenting");
  const fit = createFitter(screen);
  const watcher = new ResizeObserver(() => fit(true));
  watcher.observe(screen);
  const changes = new MutationObserver((changed) => {
    bar.update();
    fit(changed.some(({ target }) => !isInScenes(target)));
  });
  changes.observe(node, { childList: true, subtree: true });
  screen.requestFullscreen?.().catch(() => {});
  /** @param {KeyboardEvent} event */
  const keys = (event) => handleKey(event, view, end);
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
    bar.leave();
    release();
    led.node.append(led.screen);
    home.replaceWith(node);
    screen.remove();
    left();
  }
  screen.focus();
  fit(true);
}

/** @param {Node} node */
const isInScenes = (node) => node instanceof Element && node.closest(".ls-scenes") !== null;

/**
 * Create the teacher's bar: the card, the votes of a class, and what the keys do as buttons.
 * @param {import("../lessons/lesson.mjs").LessonView} view
 * @param {import("./class_follower.mjs").ClassFollower} led
 * @param {() => void} end
 */
function createBar(view, led, end) {
  const { head } = view;
  const back = createButton(tr("← Back"), () => view.go(view.at - 1, { focus: false }));
  const tell = createButton(tr("Reveal"), () => view.reveal({ focus: false }));
  const next = createButton(tr("Next →"), () => view.go(view.at + 1, { focus: false }));
  const leave = createButton(tr("Leave (Esc)"), end, { class: "dp-btn ls-leave" });
  const node = el("div", { class: "ls-bar" }, head, led.votes, back, tell, next, leave);
  const update = () => {
    back.disabled = view.at === 0;
    tell.disabled = !view.view || view.view.revealed;
    next.disabled = view.ended;
    led.placeBets(view.node.querySelector(".ls-card.revealed .ls-words"));
  };
  update();
  return {
    node,
    update,
    leave() {
      led.placeBets(null);
      view.node.prepend(head);
    },
  };
}

/**
 * Make everything but a screen inert, so that neither Tab nor a screen reader leaves it. Returns a
 * function that undoes it.
 * @param {HTMLElement} screen
 */
function makeRestInert(screen) {
  /** @type {HTMLElement[]} */
  const held = [];
  /** @type {HTMLElement | null} */
  let node = screen;
  for (; node && node !== document.body; node = node.parentElement)
    for (const other of node.parentElement?.children ?? [])
      if (other !== node && other instanceof HTMLElement && !other.inert) held.push(other);
  for (const other of held) other.inert = true;
  return () => {
    for (const other of held) other.inert = false;
  };
}

/**
 * A clicker sends PageDown and PageUp. Other keys stay with a focused control.
 * @param {KeyboardEvent} event
 * @param {import("../lessons/lesson.mjs").LessonView} view
 * @param {() => void} end
 */
function handleKey(event, view, end) {
  if (event.key === "Escape") {
    event.preventDefault();
    event.stopPropagation();
    return end();
  }
  const clicker = event.key.startsWith("Page");
  const { target } = event;
  const own =
    target instanceof Element &&
    target.closest("input, textarea, select, button, summary, .dp-stage, [role=tab]");
  if (own && !clicker) return;
  if (FORWARD_KEYS.includes(event.key)) {
    if (view.view && !view.view.revealed) view.reveal({ focus: false });
    else view.go(view.at + 1, { focus: false });
  } else if (BACK_KEYS.includes(event.key)) view.go(view.at - 1, { focus: false });
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/**
 * Return whether a node's content is cut off or has to be scrolled.
 * @param {Element} node
 */
const hasOverflow = (node) =>
  node.scrollHeight > node.clientHeight + 1 || node.scrollWidth > node.clientWidth + 1;

/**
 * Apply the largest size between two limits with which everything fits, by bisection.
 * @param {[number, number]} limits
 * @param {(size: number) => boolean} fits
 */
function findLargestFit([low, high], fits) {
  if (fits(high)) return;
  for (let i = 0; i < SEARCH_STEPS; i++) {
    const middle = (low + high) / 2;
    if (fits(middle)) low = middle;
    else high = middle;
  }
  fits(low);
}

/**
 * Return a function that fits a card to the screen. Letters come first, at least 24 pixels, then
 * pictures. If the text still overflows its column, the column gets wider; if a bet does, its
 * pictures shrink. What only redraws
 * pictures may not grow anything: pictures redraw when their size changes, and would do so for ever.
 * @param {HTMLElement} screen
 */
function createFitter(screen) {
  let timer = 0;
  let mayGrow = true;
  /** @returns {HTMLElement | null} */
  const find = (/** @type {string} */ name) => screen.querySelector(name);
  const fit = () => {
    timer = 0;
    const body = find(".ls-body");
    const words = find(".ls-words");
    const scenes = find(".ls-scenes");
    if (!body) return;
    const grows = mayGrow;
    mayGrow = false;
    const revealed = words !== null && body.querySelector(".ls-card.revealed") !== null;
    if (matchMedia(NARROW_QUERY).matches) {
      scenes?.style.removeProperty("zoom");
      screen.style.fontSize = `${FONT_SIZES[0]}px`;
      return;
    }
    if (grows) scenes?.style.removeProperty("zoom");
    if (grows || !revealed) fitWords(screen, revealed ? words : body, revealed, grows);
    if (!scenes) return;
    if (revealed) fitPictures(scenes, scenes, PICTURE_ZOOMS, grows);
    else if (hasOverflow(body)) fitPictures(scenes, body, [PICTURE_ZOOMS[0], 1], grows);
  };
  return (/** @type {boolean} */ grows) => {
    mayGrow ||= grows;
    clearTimeout(timer);
    // Wait: the stages draw in the next frames.
    timer = window.setTimeout(fit, REDRAW_MS);
  };
}

/**
 * Choose the size of the letters, and the column of words next to revealed pictures.
 * @param {HTMLElement} screen
 * @param {HTMLElement} card what must not overflow
 * @param {boolean} revealed
 * @param {boolean} grows
 */
function fitWords(screen, card, revealed, grows) {
  const [least, most] = FONT_SIZES;
  /** @param {number} share */
  const setShare = (share) => screen.style.setProperty("--ls-beside", String(share));
  setShare(SCENE_SHARES[1]);
  findLargestFit([least, grows ? most : Number.parseFloat(screen.style.fontSize)], (size) => {
    screen.style.fontSize = `${size}px`;
    return !hasOverflow(card);
  });
  if (revealed && hasOverflow(card))
    findLargestFit(SCENE_SHARES, (share) => {
      setShare(share);
      return !hasOverflow(card);
    });
}

/**
 * @param {HTMLElement} scenes
 * @param {HTMLElement} frame what must not overflow
 * @param {[number, number]} zooms
 * @param {boolean} grows
 */
function fitPictures(scenes, frame, [least, most], grows) {
  findLargestFit([least, grows ? most : Number(scenes.style.zoom) || most], (zoom) => {
    scenes.style.zoom = String(zoom);
    return !hasOverflow(frame);
  });
}
