// A job from the press of its button to its end, including lost connections, reloads and Stop. The
// page shows the first status itself, at once; later ones come from the server.
import { createButton } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { randomId } from "../shell/ids.mjs";
import { store } from "../shell/page_state.mjs";
import { askServer } from "../shell/questions.mjs";
import { CONNECTION_LOST } from "../shell/store.mjs";
import { deletePending, findPendingByLink, savePending, setRunId } from "./pending_jobs.mjs";

const STARTING = tr("Starting…");
const NO_ANSWER_YET = tr("Sent; the server has not answered yet…");
const SERVER_AWAY = tr("The server cannot be reached. Your run starts as soon as it is back.");
const WAITING_FOR_SERVER = tr("The connection to the server is lost; waiting for it to come back…");
const RECONNECTING = tr("Looking for what ran here…");
const STOPPED_UNSENT = tr("Stopped before it was sent.");
export const ALREADY_RUNNING = tr("Something runs here already: stop it first");

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

// The request carries the id of the job to come: the server learns that a page will listen to it.
async function pingServer(name = "") {
  try {
    await fetch(new URL(`${pingAddress}?press=${name}`, document.baseURI), { cache: "no-store" });
    return true;
  } catch {
    return false;
  }
}

/**
 * Sends a request to the server, with the job's id or with what is needed to resume it.
 * @typedef {(more: { press: string, resume?: boolean, run?: string, next?: number }) => void} Send
 */

/** @type {Map<string, string>} */
const linksByKey = new Map();
/** @type {Map<string, { name: string, send: Send }>} the latest press under a key */
const pressesByKey = new Map();

// Jobs without a run that have ended: their end may come by a faster connection than earlier progress.
const endedNames = new Set();

// Keys of the jobs that this page has resumed since it was loaded.
const resumedKeys = new Set();

store.watch({
  active(key) {
    const name = pressesByKey.get(key)?.name;
    if (!name) return;
    const { run } = store.activity(key) ?? {};
    // The press stays known: a job that was given up may come back, and be stopped then.
    if (!store.busy(key)) deletePending(name);
    else if (run) setRunId(name, run);
  },
});

/**
 * Return the link of a request whose run has not started, empty for none. Gradio reloads the page
 * when a connection returns; the reloaded page repeats the request from this link.
 * @param {string} key
 */
export function pendingLink(key) {
  const { phase, run } = store.activity(key) ?? {};
  // At first a request has no run, and neither has a tab that has shown nothing yet.
  const shown = run !== "" && run === store.runId(key);
  const begun = !store.busy(key) || phase === "stopping" || shown;
  return begun ? "" : (linksByKey.get(key) ?? "");
}

/** @param {number} ms */
const delay = (ms) => new Promise((done) => setTimeout(done, ms));

/**
 * Begin a job. Each key has one at a time: a second press does nothing, so that a double click
 * neither fills the queue nor replaces the first job.
 * @param {string} key the stage or tab that shows it
 * @param {Send} send
 * @param {string} [link] the page's address for the same request
 * @param {{ linked?: boolean, number?: number }} [about] linked: whether the page was opened
 *   with that address, so that the job may exist already; number: the page's own number for it
 */
export async function beginJob(key, send, link = "", { linked = false, number = 0 } = {}) {
  if (store.busy(key)) return;
  // The address of a reloaded page names the job that it has resumed already.
  if (linked && resumedKeys.delete(key)) return;
  const going = linked ? findPendingByLink(link) : undefined;
  if (resumeJob(key, send, going)) return;
  linksByKey.set(key, link);
  const own = {};
  const name = going?.press ?? randomId();
  pressesByKey.set(key, { name, send });
  savePending(name, key, link, number);
  const mine = () => store.activity(key)?.press === own;
  /**
   * @param {Activity["phase"]} phase
   * @param {string} says
   */
  const say = (phase, says) => store.act(key, { run: "", press: own, phase, says });
  store.noteRequest(key);
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
  if (mine() && store.activity(key)?.phase === "asked") say("asked", NO_ANSWER_YET);
}

/**
 * Resume a job that was begun before this page was loaded.
 * @param {string} key the stage or tab that shows it
 * @param {Send} send
 * @param {import("./pending_jobs.mjs").Pressed | undefined} going
 * @returns {boolean} whether there was a job to resume
 */
export function resumeJob(key, send, going) {
  if (!going?.run || store.busy(key)) return false;
  resumedKeys.add(key);
  const { press: name, run, link } = going;
  linksByKey.set(key, link);
  pressesByKey.set(key, { name, send });
  store.noteRequest(key);
  store.act(key, { run, press: {}, phase: "asked", says: RECONNECTING });
  requestResume(key);
  watchSilence();
  return true;
}

/**
 * Request the messages of a job from the first one that this page lacks.
 * @param {string} key
 */
async function requestResume(key) {
  const { name, send } = pressesByKey.get(key) ?? {};
  const run = store.activity(key)?.run ?? "";
  // Without a run id the request may never have reached the server, so it is sent as a new one.
  if (name && send && (await pingServer(name)))
    send({ press: name, resume: run !== "", run, next: store.runs.get(run)?.next ?? 0 });
}

/**
 * Take a message of a job that has no run of its own, such as a comparison: show its progress, or
 * its end if the message has no phase.
 * @param {string} key
 * @param {{ phase?: Activity["phase"], says?: string, error?: string, stopped?: boolean }} message
 */
export function receiveProgress(key, { phase, says = "", error = "", stopped }) {
  store.heard = performance.now();
  // Such a job has its id where others have that of their run.
  const run = pressesByKey.get(key)?.name ?? "";
  if (phase) {
    if (!endedNames.has(run)) store.showProgress({ strategy: key, run, phase, says });
    return;
  }
  if (run) endedNames.add(run);
  store.act(key, stopped ? { phase: "stopped", says: error, run: "" } : null);
}

/**
 * Stop the job of a key.
 * @param {string} key
 */
export function stopJob(key) {
  const now = store.activity(key);
  if (!now || !store.busy(key)) return;
  const unsent = now.phase === "away";
  const again = now.phase === "stopping" && !now.run;
  if (unsent || again) return store.act(key, { phase: "stopped", says: STOPPED_UNSENT, run: "" });
  store.act(key, { ...now, phase: "stopping", says: tr("Stopping…") });
  // The server keeps a stop that arrives before the job itself.
  askServer({ action: "stop", press: pressesByKey.get(key)?.name ?? "" });
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

/**
 * @param {string} key
 * @param {boolean} away whether the server cannot be reached
 * @param {number} silent milliseconds without a message
 */
function handleSilence(key, away, silent) {
  const now = store.activity(key);
  if (!now || now.phase === "away" || now.phase === "stopping") return;
  if (away) store.act(key, { ...now, says: WAITING_FOR_SERVER });
  else if (silent > GIVE_UP_MS) store.act(key, { ...now, phase: "stopped", says: CONNECTION_LOST });
  else if (performance.now() - lastResumeTime > RESUME_INTERVAL_MS) {
    lastResumeTime = performance.now();
    requestResume(key);
  }
}

/**
 * @param {HTMLElement} node a button
 * @param {boolean} on
 * @param {string} why shown while it is off
 */
function setButtonEnabled(node, on, why) {
  // Not disabled: a disabled button would lose the focus of the user who pressed it.
  node.setAttribute("aria-disabled", String(!on));
  node.title = on ? "" : why;
}

/**
 * Create a button that begins the job of a key, and one that stops it.
 * @param {string} key
 * @param {string} go text of the first button
 * @param {() => void} onGo
 * @param {string} [id] prefix of their ids
 * @returns {HTMLElement[]}
 */
export function createJobButtons(key, go, onGo, id = key) {
  const run = createButton(go, () => store.busy(key) || onGo(), {
    id: `${id}-run`,
    class: "dp-btn f-go",
  });
  const halt = createButton(tr("Stop"), () => stopJob(key), { id: `${id}-stop` });
  const look = () => {
    const busy = store.busy(key);
    setButtonEnabled(run, !busy, ALREADY_RUNNING);
    // Hiding the focused button would lose the focus.
    if (!busy && document.activeElement === halt) run.focus({ preventScroll: true });
    halt.hidden = !busy;
  };
  store.watch({ active: (changed) => changed === key && look() });
  look();
  return [run, halt];
}
