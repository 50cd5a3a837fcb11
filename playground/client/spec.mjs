// What the server declares: strategies with their parameters, models, presets of comparisons.
let declaration = { strategies: [], models: [], groups: {}, drafts: {}, presets: [], labels: [] };

export function declare(spec) {
  declaration = spec;
}

export const declared = () => declaration;
