// Made from the views of the folders by `npm run types`; a test compares the two.
import { beamRescore } from "../beam_tree/rescore_view.mjs";
import { beamTree } from "../beam_tree/view.mjs";
import { contrastivePairs } from "../contrastive/pairs_view.mjs";
import { contrastive } from "../contrastive/view.mjs";
import { dialMap } from "../dial_map/view.mjs";
import { candidates } from "../distribution/candidates.mjs";
import { chart } from "../distribution/chart.mjs";
import { draw } from "../distribution/draw.mjs";
import { xray } from "../distribution/xray.mjs";
import { draftRound } from "../draft_timeline/round_view.mjs";
import { draftTimeline } from "../draft_timeline/view.mjs";
import { fillingCompared } from "../filling/compared.mjs";
import { filling } from "../filling/view.mjs";
import { formula } from "../formula/view.mjs";
import { forwardTimeline } from "../forward_timeline/view.mjs";
import { grammar } from "../grammar/view.mjs";
import { layerHeatmap } from "../layer_heatmap/view.mjs";
import { media } from "../media/view.mjs";
import { sentence } from "../sentence/view.mjs";
import { served } from "../served/view.mjs";
import { strip } from "../text/view.mjs";
import { watermarkChance } from "../watermark/chance_view.mjs";
import { watermark } from "../watermark/view.mjs";

export const FOLDER_VIEWS = {
  beam_rescore: beamRescore,
  beam_tree: beamTree,
  contrastive_pairs: contrastivePairs,
  contrastive,
  dial_map: dialMap,
  candidates,
  chart,
  draw,
  xray,
  draft_round: draftRound,
  draft_timeline: draftTimeline,
  filling_compared: fillingCompared,
  filling,
  formula,
  forward_timeline: forwardTimeline,
  grammar,
  layer_heatmap: layerHeatmap,
  media,
  sentence,
  served,
  strip,
  watermark_chance: watermarkChance,
  watermark,
};
