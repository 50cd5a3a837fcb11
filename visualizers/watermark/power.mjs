// A probability however small, in words.

const HIGH_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const raised = (digits) => [...digits].map((c) => HIGH_DIGITS[Number(c)]).join("");

export function power(p) {
  if (p >= 0.0001) return p.toFixed(4);
  if (!(p > 0)) return "below 10⁻³⁰⁰";
  const [number, exponent] = p.toExponential(1).split("e-");
  return `${number} · 10⁻${raised(exponent)}`;
}
