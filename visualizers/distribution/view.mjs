// What one step saw: candidates raw against processed, the processors' X-ray, the draw, the curve.
export { candidates } from "./candidates.mjs";
export { chart } from "./chart.mjs";
export { draw } from "./draw.mjs";
export { xray } from "./xray.mjs";
