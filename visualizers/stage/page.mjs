// A run in a page of its own: everything it draws stands in the page already.
import { Recordings } from "./recordings.mjs";
import { Stages } from "./stage.mjs";
import { VIEWS } from "./views.mjs";

/** @param {{ recorded: Recorded, visuals: string[], dark: boolean }} given */
export function open({ recorded, visuals, dark }) {
  const { strategy, seed } = recorded.trace;
  const name = `${strategy}, seed ${seed}`;
  document.documentElement.classList.toggle("dark", dark);
  document.title = name;
  document.querySelector("h1").textContent = name;
  const recordings = new Recordings();
  const stages = new Stages(recordings);
  stages.register(VIEWS);
  stages.mount(document.querySelector(".dp-stage"), { strategy, visuals }, () => {});
  recordings.showTrace(strategy, recorded, "replayed");
}
