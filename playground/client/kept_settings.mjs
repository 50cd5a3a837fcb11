// Settings that this browser keeps, strategy by strategy.
import { tr } from "../../visualizers/shared/tr.mjs";

const KEY = "dp-configs";
const LIMIT = 12;

// A browser may forbid a page to keep anything, and what is kept may be anybody's.
function all() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) || {};
  } catch {
    return {};
  }
}

const isValid = (c) =>
  c &&
  typeof c.name === "string" &&
  typeof c.text === "string" &&
  c.params &&
  typeof c.params === "object";

export function keptFor(strategy) {
  const list = all()[strategy];
  return Array.isArray(list) ? list.filter(isValid) : [];
}

function store(strategy, list) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...all(), [strategy]: list }));
    return true;
  } catch {
    return false;
  }
}

export function keep(strategy, settings) {
  const others = keptFor(strategy).filter((c) => c.name !== settings.name);
  if (others.length >= LIMIT)
    return {
      bad: true,
      said: tr("At most {limit} settings are kept; remove one first.", { limit: LIMIT }),
    };
  if (store(strategy, [...others, settings]))
    return { bad: false, said: tr("Kept as “{name}” in this browser.", { name: settings.name }) };
  return { bad: true, said: tr("This browser does not let the page keep anything.") };
}

export const forget = (strategy, name) =>
  store(
    strategy,
    keptFor(strategy).filter((c) => c.name !== name),
  );
