// From a press of Run to its end: the first word comes at once, from here; the rest is the server's.
import { button, el } from "../../visualizers/shared/dom.mjs";
import { tr } from "../../visualizers/shared/tr.mjs";
import { forgetPress, keepPress, nameRun, newName, pressFor } from "./kept_presses.mjs";
import { store } from "./runs.mjs";
import { GONE } from "./store.mjs";

const STARTING = tr("Starting…");
const NO_WORD = tr("Sent; the server has not answered yet…");
const AWAY = tr("The server cannot be reached. Your run starts as soon as it is back.");
const LOST = tr("The connection to the server is lost; waiting for it to come back…");
const AGAIN = tr("Looking for what ran here…");
const UNSENT = tr("Stopped before it was sent.");
export const UNDER_WAY = tr("Something runs here already: stop it first");
const NOTHING = tr("Nothing runs here");

const AGAIN_MS = 1000;
const SOON_MS = 2000;
// The server says something every second: after so long without a word something is amiss.
const SILENT_MS = 5000;
const GONE_MS = 40_000;
// A server that is slow is not asked for whole runs again and again.
const ASK_MS = 10_000;

let here = "./here";

/** @param {string} address where the server answers whoever asks whether it is there */
export const answersAt = (address) => {
  here = address;
};

// The server is told the name of what comes next: a page that says so will listen.
async function reachable(name = "") {
  try {
    await fetch(new URL(`${here}?press=${name}`, document.baseURI), { cache: "no-store" });
    return true;
  } catch {
    return false;
  }
}

/**
 * Asks the server for something: what goes along says what it is called, or that it is asked for again.
 * @typedef {(more: { press: string, resume?: boolean, run?: string, next?: number }) => void} Send
 */

const links = new Map();
/** @type {Map<string, { name: string, send: Send }>} the latest press under a key */
const presses = new Map();

// What this page has taken up since it was loaded.
const takenUp = new Set();

store.watch({
  active(key) {
    const name = presses.get(key)?.name;
    if (!name) return;
    const { run } = store.activity(key) ?? {};
    if (store.busy(key)) run && nameRun(name, run);
    else {
      presses.delete(key);
      forgetPress(name);
    }
  },
});

/**
 * The address of what was asked for and has not begun: a page that is loaded anew meanwhile, as Gradio
 * does when a connection is back, asks for it again.
 * @param {string} key
 */
export function pending(key) {
  const { phase, run } = store.activity(key) ?? {};
  const begun = !store.busy(key) || phase === "stopping" || run === store.runId(key);
  return begun ? "" : links.get(key);
}

const later = (ms) => new Promise((done) => setTimeout(done, ms));

/**
 * Ask the server for something that takes time. One thing at a time goes on under a key: a second
 * press does nothing, so that nobody fills the line or loses a run by pressing twice.
 * @param {string} key where it is shown
 * @param {Send} send
 * @param {string} [link] the address that asks for the same
 * @param {{ linked?: boolean, number?: number }} [about] linked: whether that address was opened, so
 *   that what it asks for may go on already; number: what the page knows it by
 */
export async function press(key, send, link = "", { linked = false, number = 0 } = {}) {
  if (store.busy(key)) return;
  // The address of a page that is loaded anew is that of what it has taken up again.
  if (linked && takenUp.delete(key)) return;
  const going = linked ? pressFor(link) : undefined;
  if (resume(key, send, going)) return;
  links.set(key, link);
  const own = {};
  const name = going?.press ?? newName();
  presses.set(key, { name, send });
  keepPress(name, key, link, number);
  const mine = () => store.activity(key)?.press === own;
  const say = (phase, says) => store.act(key, { run: "", press: own, phase, says });
  store.asked(key);
  say("asked", STARTING);
  while (!(await reachable(name))) {
    if (!mine()) return;
    say("away", AWAY);
    await later(AGAIN_MS);
  }
  if (!mine()) return;
  say("asked", STARTING);
  send({ press: name });
  listen();
  await later(SOON_MS);
  if (mine() && store.activity(key).phase === "asked") say("asked", NO_WORD);
}

/**
 * Follow again what goes on since before this page was loaded.
 * @param {string} key where it is shown
 * @param {Send} send
 * @param {import("./kept_presses.mjs").Pressed | undefined} going
 * @returns {boolean} whether there is anything
 */
export function resume(key, send, going) {
  if (!going?.run || store.busy(key)) return false;
  takenUp.add(key);
  const { press: name, run, link } = going;
  links.set(key, link);
  presses.set(key, { name, send });
  store.asked(key);
  store.act(key, { run, press: {}, phase: "asked", says: AGAIN });
  again(key);
  listen();
  return true;
}

// Ask for what goes on under a key from where this page has it.
async function again(key) {
  const { name, send } = presses.get(key) ?? {};
  const run = store.activity(key)?.run ?? "";
  // What has no name of the server's may never have reached it.
  if (name && (await reachable(name)))
    send({ press: name, resume: run !== "", run, next: store.runs.get(run)?.next ?? 0 });
}

/**
 * Stop what goes on under a key: at once, or as soon as the server has said what it is called.
 * @param {string} key
 * @param {(run: string) => void} tell
 */
export function stop(key, tell) {
  const now = store.activity(key);
  if (!store.busy(key)) return;
  const unsent = now.phase === "away";
  const again = now.phase === "stopping" && !now.run;
  if (unsent || again) return store.act(key, { phase: "stopped", says: UNSENT, run: "" });
  store.act(key, {
    ...now,
    phase: "stopping",
    says: tr("Stopping…"),
    wanted: now.run ? null : tell,
  });
  if (now.run) tell(now.run);
}

let watching = false;

// While something runs, silence is looked into.
async function listen() {
  if (watching) return;
  watching = true;
  while (store.busyKeys().length) {
    await later(AGAIN_MS);
    const silent = performance.now() - store.heard;
    if (silent < SILENT_MS) continue;
    const away = !(await reachable());
    for (const key of store.busyKeys()) lost(key, away, silent);
  }
  watching = false;
}

let asked = 0;

function lost(key, away, silent) {
  const now = store.activity(key);
  if (now.phase === "away" || now.phase === "stopping") return;
  if (away) store.act(key, { ...now, says: LOST });
  else if (silent > GONE_MS) store.act(key, { ...now, phase: "stopped", says: GONE });
  else if (performance.now() - asked > ASK_MS) {
    asked = performance.now();
    again(key);
  }
}

// A button that cannot act now says why and keeps the focus of whoever has just pressed it.
function able(node, on, why) {
  node.setAttribute("aria-disabled", String(!on));
  node.title = on ? "" : why;
}

/**
 * @param {HTMLElement} go
 * @param {HTMLElement} halt
 * @param {string} key what they start and stop
 */
export function follow(go, halt, key) {
  const look = () => {
    able(go, !store.busy(key), UNDER_WAY);
    able(halt, store.busy(key), NOTHING);
  };
  store.watch({ active: (changed) => changed === key && look() });
  look();
}

/**
 * Run and Stop of a part of the page.
 * @param {string} id
 * @param {string} go what Run is called here
 * @param {string} key
 * @param {() => void} onGo
 * @param {(run: string) => void} onStop
 */
export function goAndStop(id, go, key, onGo, onStop) {
  const run = button(go, () => store.busy(key) || onGo(), {
    id: `${id}-run`,
    class: "dp-btn f-go",
  });
  const halt = button(tr("Stop"), () => stop(key, onStop), { id: `${id}-stop` });
  follow(run, halt, key);
  return el("div", { class: "f-acts" }, run, halt);
}
