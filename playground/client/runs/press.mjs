// A run from the press of Run to its end, including lost connections and Stop. The page shows the
// first status itself, at once; later ones come from the server.
import { button, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { store } from "../shell/page_state.mjs";
import { forgetPress, keepPress, nameRun, newName, pressFor } from "../shell/pending_runs.mjs";
import { GONE } from "../shell/store.mjs";

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
// The server sends a message every second, so this much silence means a problem.
const SILENT_MS = 5000;
const GONE_MS = 40_000;
// Minimum time between two requests for missed messages, so that a slow server is not flooded.
const ASK_MS = 10_000;

let here = "./here";

/**
 * Set the address that is fetched to test whether the server can be reached.
 * @param {string} address
 */
export const answersAt = (address) => {
  here = address;
};

// The request carries the name of the run to come: the server learns that a page will listen to it.
async function reachable(name = "") {
  try {
    await fetch(new URL(`${here}?press=${name}`, document.baseURI), { cache: "no-store" });
    return true;
  } catch {
    return false;
  }
}

/**
 * Sends a request to the server, with the press's name or with what is needed to resume its run.
 * @typedef {(more: { press: string, resume?: boolean, run?: string, next?: number }) => void} Send
 */

const links = new Map();
/** @type {Map<string, { name: string, send: Send }>} the latest press under a key */
const presses = new Map();

// Keys of the runs that this page has resumed since it was loaded.
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
 * Return the link of a request whose run has not started, empty for none. Gradio reloads the page
 * when a connection returns; the reloaded page repeats the request from this link.
 * @param {string} key
 */
export function pending(key) {
  const { phase, run } = store.activity(key) ?? {};
  const begun = !store.busy(key) || phase === "stopping" || run === store.runId(key);
  return begun ? "" : links.get(key);
}

const later = (ms) => new Promise((done) => setTimeout(done, ms));

/**
 * Start a run. Each key has one run at a time: a second press does nothing, so that a double click
 * neither fills the queue nor replaces the first run.
 * @param {string} key where the run is shown
 * @param {Send} send
 * @param {string} [link] the page's address for the same request
 * @param {{ linked?: boolean, number?: number }} [about] linked: whether the page was opened
 *   with that address, so that the run may exist already; number: the page's own number for it
 */
export async function press(key, send, link = "", { linked = false, number = 0 } = {}) {
  if (store.busy(key)) return;
  // The address of a reloaded page names the run that it has resumed already.
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
 * Resume a run that was started before this page was loaded.
 * @param {string} key where the run is shown
 * @param {Send} send
 * @param {import("../shell/pending_runs.mjs").Pressed | undefined} going
 * @returns {boolean} whether there was a run to resume
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

// Request a run's messages from the first one that this page lacks.
async function again(key) {
  const { name, send } = presses.get(key) ?? {};
  const run = store.activity(key)?.run ?? "";
  // Without a run id the request may never have reached the server, so it is sent as a new one.
  if (name && (await reachable(name)))
    send({ press: name, resume: run !== "", run, next: store.runs.get(run)?.next ?? 0 });
}

/**
 * Stop the run of a key: at once, or as soon as the server has sent the run's id.
 * @param {string} key
 * @param {(run: string) => void} tell sends the stop request
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

// While anything runs, check whether silence means a lost connection.
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

// aria-disabled, not disabled: a disabled button would lose the focus of the user who pressed it.
function able(node, on, why) {
  node.setAttribute("aria-disabled", String(!on));
  node.title = on ? "" : why;
}

/**
 * Enable a Run and a Stop button according to whether a run is active.
 * @param {HTMLElement} go
 * @param {HTMLElement} halt
 * @param {string} key of the run that they start and stop
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
 * Create the Run and Stop buttons of a tab.
 * @param {string} id
 * @param {string} go text of the Run button
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
