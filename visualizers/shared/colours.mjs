// The page's colours as values of the current theme, for charts and exported pictures.
const NAMES = ["bg", "text", "muted", "line", "accent", "good", "bad", "warn", "violet"];

export function colours() {
  const style = getComputedStyle(document.querySelector(".dp-stage"));
  return Object.fromEntries(NAMES.map((n) => [n, style.getPropertyValue(`--dp-${n}`).trim()]));
}
