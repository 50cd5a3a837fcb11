// The page's colours as values of the current theme, for charts and exported pictures.
const COLOUR_NAMES = ["bg", "text", "muted", "line", "accent", "good", "bad", "warn", "violet"];

export function readColours() {
  const style = getComputedStyle(document.querySelector(".dp-stage") ?? document.documentElement);
  return Object.fromEntries(
    COLOUR_NAMES.map((n) => [n, style.getPropertyValue(`--dp-${n}`).trim()]),
  );
}
