// The address that makes a run again: copied by whoever shares it, restored by whoever opens it.
import { button } from "../../visualizers/shared/dom.mjs";
import { ask, connectedAsk } from "./ask.mjs";
import { openTab } from "./open_tab.mjs";
import { store } from "./runs.mjs";
import { declared, strategyOf } from "./spec.mjs";
import { tabOf } from "./tab.mjs";
import { whenThere } from "./waiting.mjs";

/** @param {string} search the address's part behind "?" */
export async function restore(search) {
  const wanted = new URLSearchParams(search).get("strategy");
  if (!wanted) return;
  const strategy = (strategyOf(wanted) || declared().strategies[0]).name;
  openTab(strategy);
  await connectedAsk;
  const found = await ask({ action: "link", search });
  if (found.error) refuse(strategy, found.error);
  else
    whenThere(
      () => tabOf(strategy),
      (tab) => {
        tab.show(found);
        tab.run();
      },
    );
}

const refuse = (strategy, error) =>
  store.receive(JSON.stringify({ run: "link", seq: 0, kind: "fail", strategy, error }));

async function copyLink(event) {
  const copy = event.currentTarget;
  await navigator.clipboard.writeText(location.href);
  copy.textContent = "Link copied";
  setTimeout(() => {
    copy.textContent = "Copy link";
  }, 1500);
}

/** @returns {import("../../visualizers/stage/scrub.mjs").Offer} */
export function copying() {
  const node = button("Copy link", copyLink);
  return {
    node,
    update(run) {
      node.toggleAttribute("disabled", !!run.parent);
      node.title = run.parent
        ? "A link holds a prompt, not a branch: download its trace instead"
        : "";
    },
  };
}
