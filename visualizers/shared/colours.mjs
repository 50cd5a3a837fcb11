// The page's colours as a chart or a picture of its own needs them: as values, light or dark.
const NAMES = ["bg", "text", "muted", "line", "accent", "good", "bad", "warn", "violet"];

export function colours() {
  const style = getComputedStyle(document.querySelector(".dp-stage"));
  return Object.fromEntries(NAMES.map((n) => [n, style.getPropertyValue(`--dp-${n}`).trim()]));
}
