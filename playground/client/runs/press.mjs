// A run from the press of Run to its end, including lost connections and Stop. The page shows the
// first status itself, at once; later ones come from the server.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { store } from "../shell/page_state.mjs";
import {
  deletePending,
  findPendingByLink,
  randomId,
  savePending,
  setRunId,
} from "../shell/pending_runs.mjs";
import { CONNECTION_LOST } from "../shell/store.mjs";

const STARTING = tr("Starting…");
const NO_ANSWER_YET = tr("Sent; the server has not answered yet…");
const SERVER_AWAY = tr("The server cannot be reached. Your run starts as soon as it is back.");
const WAITING_FOR_SERVER = tr("The connection to the server is lost; waiting for it to come back…");
const RECONNECTING = tr("Looking for what ran here…");
const STOPPED_UNSENT = tr("Stopped before it was sent.");
export const ALREADY_RUNNING = tr("Something runs here already: stop it first");
const NOTHING_RUNS = tr("Nothing runs here");

const RETRY_MS = 1000;
const FIRST_ANSWER_MS = 2000;
// The server sends a message every second, so this much silence means a problem.
const SILENT_MS = 5000;
const GIVE_UP_MS = 40_000;
// Minimum time between two requests for missed messages, so that a slow server is not flooded.
const RESUME_INTERVAL_MS = 10_000;

let pingAddress = "./here";

/**
 * Set the address that is fetched to test whether the server can be reached.
 * @param {string} address
 */
export const setPingAddress = (address) => {
  pingAddress = address;
};

// The request carries the name of the run to come: the server learns that a page will listen to it.
async function pingServer(name = "") {
  try {
    await fetch(new URL(`${pingAddress}?press=${name}`, document.baseURI), { cache: "no-store" });
    return true;
  } catch {
    return false;
  }
}

/**
 * Sends a request to the server, with the press's name or with what is needed to resume its run.
 * @typedef {(more: { press: string, resume?: boolean, run?: string, next?: number }) => void} Send
 */

const linksByKey = new Map();
/** @type {Map<string, { name: string, send: Send }>} the latest press under a key */
const pressesByKey = new Map();

// Keys of the runs that this page has resumed since it was loaded.
const resumedKeys = new Set();

store.watch({
  active(key) {
    const name = pressesByKey.get(key)?.name;
    if (!name) return;
    const { run } = store.activity(key) ?? {};
    if (store.busy(key)) run && setRunId(name, run);
    else {
      pressesByKey.delete(key);
      deletePending(name);
    }
  },
});

/**
 * Return the link of a request whose run has not started, empty for none. Gradio reloads the page
 * when a connection returns; the reloaded page repeats the request from this link.
 * @param {string} key
 */
export function pendingLink(key) {
  const { phase, run } = store.activity(key) ?? {};
  const begun = !store.busy(key) || phase === "stopping" || run === store.runId(key);
  return begun ? "" : linksByKey.get(key);
}

const delay = (ms) => new Promise((done) => setTimeout(done, ms));

/**
 * Start a run. Each key has one run at a time: a second press does nothing, so that a double click
 * neither fills the queue nor replaces the first run.
 * @param {string} key where the run is shown
 * @param {Send} send
 * @param {string} [link] the page's address for the same request
 * @param {{ linked?: boolean, number?: number }} [about] linked: whether the page was opened
 *   with that address, so that the run may exist already; number: the page's own number for it
 */
export async function requestRun(key, send, link = "", { linked = false, number = 0 } = {}) {
  if (store.busy(key)) return;
  // The address of a reloaded page names the run that it has resumed already.
  if (linked && resumedKeys.delete(key)) return;
  const going = linked ? findPendingByLink(link) : undefined;
  if (resumeRun(key, send, going)) return;
  linksByKey.set(key, link);
  const own = {};
  const name = going?.press ?? randomId();
  pressesByKey.set(key, { name, send });
  savePending(name, key, link, number);
  const mine = () => store.activity(key)?.press === own;
  const say = (phase, says) => store.act(key, { run: "", press: own, phase, says });
  store.asked(key);
  say("asked", STARTING);
  while (!(await pingServer(name))) {
    if (!mine()) return;
    say("away", SERVER_AWAY);
    await delay(RETRY_MS);
  }
  if (!mine()) return;
  say("asked", STARTING);
  send({ press: name });
  watchSilence();
  await delay(FIRST_ANSWER_MS);
  if (mine() && store.activity(key).phase === "asked") say("asked", NO_ANSWER_YET);
}

/**
 * Resume a run that was started before this page was loaded.
 * @param {string} key where the run is shown
 * @param {Send} send
 * @param {import("../shell/pending_runs.mjs").Pressed | undefined} going
 * @returns {boolean} whether there was a run to resume
 */
export function resumeRun(key, send, going) {
  if (!going?.run || store.busy(key)) return false;
  resumedKeys.add(key);
  const { press: name, run, link } = going;
  linksByKey.set(key, link);
  pressesByKey.set(key, { name, send });
  store.asked(key);
  store.act(key, { run, press: {}, phase: "asked", says: RECONNECTING });
  requestResume(key);
  watchSilence();
  return true;
}

// Request a run's messages from the first one that this page lacks.
async function requestResume(key) {
  const { name, send } = pressesByKey.get(key) ?? {};
  const run = store.activity(key)?.run ?? "";
  // Without a run id the request may never have reached the server, so it is sent as a new one.
  if (name && (await pingServer(name)))
    send({ press: name, resume: run !== "", run, next: store.runs.get(run)?.next ?? 0 });
}

/**
 * Stop the run of a key: at once, or as soon as the server has sent the run's id.
 * @param {string} key
 * @param {(run: string) => void} tell sends the stop request
 */
export function stopRun(key, tell) {
  const now = store.activity(key);
  if (!store.busy(key)) return;
  const unsent = now.phase === "away";
  const again = now.phase === "stopping" && !now.run;
  if (unsent || again) return store.act(key, { phase: "stopped", says: STOPPED_UNSENT, run: "" });
  store.act(key, {
    ...now,
    phase: "stopping",
    says: tr("Stopping…"),
    wanted: now.run ? null : tell,
  });
  if (now.run) tell(now.run);
}

let isWatching = false;

// While anything runs, check whether silence means a lost connection.
async function watchSilence() {
  if (isWatching) return;
  isWatching = true;
  while (store.busyKeys().length) {
    await delay(RETRY_MS);
    const silent = performance.now() - store.heard;
    if (silent < SILENT_MS) continue;
    const away = !(await pingServer());
    for (const key of store.busyKeys()) handleSilence(key, away, silent);
  }
  isWatching = false;
}

let lastResumeTime = 0;

function handleSilence(key, away, silent) {
  const now = store.activity(key);
  if (now.phase === "away" || now.phase === "stopping") return;
  if (away) store.act(key, { ...now, says: WAITING_FOR_SERVER });
  else if (silent > GIVE_UP_MS) store.act(key, { ...now, phase: "stopped", says: CONNECTION_LOST });
  else if (performance.now() - lastResumeTime > RESUME_INTERVAL_MS) {
    lastResumeTime = performance.now();
    requestResume(key);
  }
}

// aria-disabled, not disabled: a disabled button would lose the focus of the user who pressed it.
function setButtonEnabled(node, on, why) {
  node.setAttribute("aria-disabled", String(!on));
  node.title = on ? "" : why;
}

/**
 * Enable a Run and a Stop button according to whether a run is active.
 * @param {HTMLElement} go
 * @param {HTMLElement} halt
 * @param {string} key of the run that they start and stop
 */
export function bindButtons(go, halt, key) {
  const look = () => {
    setButtonEnabled(go, !store.busy(key), ALREADY_RUNNING);
    setButtonEnabled(halt, store.busy(key), NOTHING_RUNS);
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
export function createRunButtons(id, go, key, onGo, onStop) {
  const run = createButton(go, () => store.busy(key) || onGo(), {
    id: `${id}-run`,
    class: "dp-btn f-go",
  });
  const halt = createButton(tr("Stop"), () => stopRun(key, onStop), { id: `${id}-stop` });
  bindButtons(run, halt, key);
  return el("div", { class: "f-acts" }, run, halt);
}
