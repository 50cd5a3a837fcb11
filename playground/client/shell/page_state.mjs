// The page's only store of runs and the stages that show them, shared by all modules.
import { Stages } from "../../../visualizers/stage/stage.mjs";
import { Store } from "./store.mjs";

export const store = new Store();
export const stages = new Stages(store);
