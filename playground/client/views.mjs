// The views that a saved page has, too: they draw from the record of a run alone.
import { rescoreView } from "../../visualizers/beam_tree/rescore_view.mjs";
import { beamTree } from "../../visualizers/beam_tree/view.mjs";
import { contrastive } from "../../visualizers/contrastive/view.mjs";
import { candidates, chart, draw, xray } from "../../visualizers/distribution/view.mjs";
import { draftTimeline } from "../../visualizers/draft_timeline/view.mjs";
import { layerHeatmap } from "../../visualizers/layer_heatmap/view.mjs";
import { watermark } from "../../visualizers/watermark/view.mjs";
import { scrub } from "./scrub.mjs";
import { status } from "./status.mjs";
import { strip } from "./strip.mjs";

export const VIEWS = {
  status,
  strip,
  scrub,
  candidates,
  xray,
  draw,
  chart,
  beam_tree: beamTree,
  beam_rescore: rescoreView,
  contrastive,
  layer_heatmap: layerHeatmap,
  watermark,
  draft_timeline: draftTimeline,
};
