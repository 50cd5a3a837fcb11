// The views of a step's distribution: candidates, processor X-ray, draw and curve.
export { candidates } from "./candidates.mjs";
export { chart } from "./chart.mjs";
export { draw } from "./draw.mjs";
export { xray } from "./xray.mjs";
