// Opens an address: a tab, a recorded run at a step, a form to fill and run, or a branch.
import { createButton } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { updateAddress } from "../shell/address.mjs";
import { getOtherTab, OTHER_TAB_NAMES } from "../shell/other_tabs.mjs";
import { store } from "../shell/page_state.mjs";
import { waitUntilFound } from "../shell/polling.mjs";
import { askWhenReady } from "../shell/questions.mjs";
import { findStrategy, getDeclaration } from "../shell/spec.mjs";
import { getStrategyTab } from "../shell/strategy_tabs.mjs";
import { openTab, runForm } from "../shell/tab_navigation.mjs";
import { linksUploads, mediaMissingSentence, visitorId } from "../shell/visitor_media.mjs";
import { startLinkedBranch } from "./fork.mjs";

const TAB_PARAMETERS = ["tab", "trace", "strategy", "lesson"];

/**
 * Return the tab that an address names, as far as it can be read without asking the server.
 * @param {URLSearchParams} query
 * @returns {string}
 */
function findTargetTab(query) {
  const [tab, trace, strategy, lesson] = TAB_PARAMETERS.map((name) => query.get(name));
  const named = [tab, strategy, trace?.replace(/-\d+$/, ""), lesson && "lessons"];
  return (
    named.find((name) => name && (findStrategy(name) || OTHER_TAB_NAMES.includes(name))) ??
    getDeclaration().strategies[0].name
  );
}

/**
 * Open what the address names.
 * @param {string} search query string
 */
export async function openAddress(search) {
  const query = new URLSearchParams(search);
  if (!TAB_PARAMETERS.some((name) => query.has(name))) return;
  const tab = findTargetTab(query);
  const since = performance.now();
  openTab(tab);
  const found = await askWhenReady({ action: "link", search, visitor: visitorId() });
  if (found.error) return showError(tab, found.error);
  if (found.tab !== tab) openTab(found.tab);
  if (findStrategy(found.tab))
    waitUntilFound(
      () => getStrategyTab(found.tab),
      (there) => openInTab(there, found, search, since),
    );
  else
    waitUntilFound(
      () => getOtherTab(found.tab),
      (part) => {
        const stranger = found.form && findUnknownName(found.form);
        part.restore(found, !stranger && !found.lacks);
        if (stranger) part.refuse(notStartedSentence(stranger));
        else if (found.lacks) part.refuse(mediaMissingSentence(found.lacks));
      },
    );
}

/**
 * Open a link in a strategy's tab; keep what the visitor changed since the address was opened.
 * @param {any} tab
 * @param {any} found what the server says of the link
 * @param {string} search
 * @param {number} since
 */
async function openInTab(tab, found, search, since) {
  const { step, recorded, form, branch, lacks } = found;
  const { name, presets } = tab.strategy;
  await tab.cameBack;
  if (form && tab.shows(search)) return step !== null && store.select(store.shown(name), step - 1);
  if (form) {
    tab.show(form);
    if (step !== null) selectWhenEnded(name, step);
    const stranger = findUnknownName(form);
    const start = async () => {
      showErrorIf(name, await startLinkedBranch(branch, tab.ask()));
    };
    if (branch && stranger) tab.next = start;
    if (stranger) return showError(name, notStartedSentence(stranger));
    if (lacks) return tab.media.lacks(lacks);
    if (branch) await start();
    else tab.run(true);
    return;
  }
  const opened = recorded ?? (step === null ? null : presets[0]?.recorded);
  // The tab itself opens a recording; a second time would undo what the visitor did meanwhile.
  await tab.welcomed;
  const shown = store.shown(name);
  if (opened && shown && shown.entry === opened) {
    const moved = shown.selected !== (shown.look_at ?? 1) - 1;
    if (step !== null && !moved) store.select(shown, step - 1);
    return;
  }
  if (opened) showErrorIf(name, await tab.open(opened, step, since).then(() => "", String));
}

/**
 * Return the first model or method of a form that the page does not ship. Anyone can write a link:
 * one with such a name fills the form but never starts a run by itself.
 * @typedef {{ model?: string, assistant?: string, values?: Record<string, any> }} NamedParts
 * @param {NamedParts & { base?: string, columns?: NamedParts[] }} form
 * @returns {string | undefined}
 */
function findUnknownName({ model, assistant, base, values, columns = [] }) {
  const { models, methods } = getDeclaration();
  const known = models.filter((m) => m.embedded).map((m) => m.name);
  const named = [model, assistant, base, ...columns.flatMap((c) => [c.model, c.assistant])];
  const found = named.find((name) => name && !known.includes(name));
  const code = [values, ...columns.map((c) => c.values)].map((of) => of?.method);
  return found ?? code.find((name) => name && !methods.includes(name));
}

/** @param {string} model */
const notStartedSentence = (model) =>
  tr(
    "This link asks for {model}, which does not come with this page. Check the settings, then press Run.",
    { model },
  );

/**
 * Select the step when the run ends, unless the visitor has selected another one.
 * @param {string} key
 * @param {number} step from 1
 */
function selectWhenEnded(key, step) {
  const before = store.runId(key);
  let waiting = true;
  store.watch({
    changed(run) {
      // Skip the tab's recorded run, which may arrive before the requested one.
      const asked = !run.source && run.id !== before && store.runId(key) === run.id;
      if (!waiting || !asked || run.status === "running") return;
      waiting = false;
      const { length } = run.steps;
      if (step > length)
        return showError(
          key,
          tr(
            "This link cannot be opened, because step = {step} is not one of the run's steps 1 to {length}.",
            { step, length },
          ),
        );
      if (run.follow) store.select(run, step - 1);
    },
  });
}

/**
 * @param {string} tab
 * @param {string} error empty for none
 */
const showErrorIf = (tab, error) => error && showError(tab, error);

/**
 * @param {string} tab
 * @param {string} sentence
 */
function showError(tab, sentence) {
  const error = said(sentence);
  if (!findStrategy(tab))
    return waitUntilFound(
      () => getOtherTab(tab),
      (part) => part.refuse(error),
    );
  const message = { run: "link", seq: 0, kind: "fail", strategy: tab, error };
  waitUntilFound(
    () => getStrategyTab(tab),
    // Wait for the tab's first run, so that the error does not replace it.
    (there) => there.welcomed.then(() => store.receive(JSON.stringify(message))),
  );
}

/** @param {Event} event */
async function copyLink({ currentTarget }) {
  const copy = /** @type {HTMLElement} */ (currentTarget);
  updateAddress();
  await navigator.clipboard.writeText(location.href);
  copy.textContent = linksUploads(location.search)
    ? tr("Link copied, without what the model was given")
    : tr("Link copied");
  setTimeout(() => {
    copy.textContent = tr("Copy link");
  }, 1500);
}

/**
 * Make the button that copies the run's link.
 * @returns {import("../../../visualizers/stage/figures.mjs").Offer}
 */
export function copyLinkButton() {
  const node = createButton(tr("Copy link"), copyLink, {
    title: tr("Opens this run at this step"),
  });
  return { node, update() {} };
}

/**
 * Make the button that runs a recorded run's settings in its tab.
 * @returns {import("../../../visualizers/stage/figures.mjs").Offer}
 */
export function runAgainButton() {
  /** @type {Run | null} */
  let run = null;
  const again = () => run && runForm(run.form);
  const node = createButton(tr("Run it yourself"), again, {
    class: "dp-btn lk-again",
    title: tr("Puts its settings into the form and runs them here"),
  });
  node.hidden = true;
  return {
    node,
    update(shown) {
      run = shown;
      const recorded = ["recorded", "replayed", "paused"].includes(shown.status);
      node.hidden = !recorded || !shown.form || !findStrategy(shown.form.strategy);
    },
  };
}
