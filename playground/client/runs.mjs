// The page's own store and stages.
import { Stages } from "../../visualizers/stage/stage.mjs";
import { Store } from "./store.mjs";

export const store = new Store();
export const stages = new Stages(store);
