// The views of every page. They draw from the record of a run and need no server.
import { rescoreView } from "../beam_tree/rescore_view.mjs";
import { beamTree } from "../beam_tree/view.mjs";
import { contrastive } from "../contrastive/view.mjs";
import { candidates, chart, draw, xray } from "../distribution/view.mjs";
import { draftTimeline } from "../draft_timeline/view.mjs";
import { formula } from "../formula/view.mjs";
import { forwardTimeline } from "../forward_timeline/view.mjs";
import { layerHeatmap } from "../layer_heatmap/view.mjs";
import { media } from "../media/view.mjs";
import { createPredictView } from "../predict/view.mjs";
import { strip } from "../text/view.mjs";
import { watermark } from "../watermark/view.mjs";
import { about } from "./about.mjs";
import { createLookView } from "./look.mjs";
import { createScrubView } from "./scrub.mjs";
import { status } from "./status.mjs";
import { whyNote } from "./why_note.mjs";

export const VIEWS = {
  about,
  look: createLookView(),
  status,
  media,
  strip,
  predict: createPredictView(),
  scrub: createScrubView(),
  candidates,
  why: whyNote,
  xray,
  formula,
  draw,
  chart,
  beam_tree: beamTree,
  beam_rescore: rescoreView,
  contrastive,
  layer_heatmap: layerHeatmap,
  watermark,
  draft_timeline: draftTimeline,
  forward_timeline: forwardTimeline,
};
