// The views of every page. They draw from the record of a run and need no server.
import { createPredictView } from "../predict/view.mjs";
import { about } from "./about.mjs";
import { createFiguresView } from "./figures.mjs";
import { createLookView } from "./look.mjs";
import { scrub } from "./scrub.mjs";
import { status } from "./status.mjs";
import { FOLDER_VIEWS } from "./view_index.mjs";
import { whyNote } from "./why_note.mjs";

/** Views that are above the pictures on the page of a single run. */
export const PAGE_VIEWS = ["look", "predict"];

export const VIEWS = {
  about,
  look: createLookView(),
  status,
  predict: createPredictView(),
  scrub,
  figures: createFiguresView(),
  why: whyNote,
  ...FOLDER_VIEWS,
};
