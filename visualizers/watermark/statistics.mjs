// How sure a detector may be: z, and the exact one-sided tail of a binomial, as the engine has them;
// a test compares the two.

const LANCZOS = [
  676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
];

function lgamma(number) {
  const x = number - 1;
  const t = x + LANCZOS.length - 0.5;
  const sum = LANCZOS.reduce((all, g, i) => all + g / (x + i + 1), 0.99999999999980993);
  return 0.5 * Math.log(2 * Math.PI) + (x + 0.5) * Math.log(t) - t + Math.log(sum);
}

export function binomialTail(hits, trials, chance) {
  if (hits <= 0) return 1;
  const whole = lgamma(trials + 1);
  const logs = [];
  for (let k = hits; k <= trials; k++) {
    const ways = whole - lgamma(k + 1) - lgamma(trials - k + 1);
    logs.push(ways + k * Math.log(chance) + (trials - k) * Math.log1p(-chance));
  }
  const top = Math.max(...logs);
  return Math.min(1, Math.exp(top) * logs.reduce((sum, v) => sum + Math.exp(v - top), 0));
}

export const zOf = (hits, trials, expected) =>
  (hits - expected * trials) / Math.sqrt(trials * expected * (1 - expected));

const HIGH_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const raised = (digits) => [...digits].map((c) => HIGH_DIGITS[Number(c)]).join("");

// A probability however small.
export function power(p) {
  if (p >= 0.0001) return p.toFixed(4);
  if (!(p > 0)) return "below 10⁻³⁰⁰";
  const [number, exponent] = p.toExponential(1).split("e-");
  return `${number} · 10⁻${raised(exponent)}`;
}
