// Settings saved in this browser, by strategy.
import { tr } from "../../../visualizers/shared/tr.mjs";

const KEY = "dp-configs";
const LIMIT = 12;

// The browser may block storage, and stored data may come from another program: check everything.
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

/** Return a strategy's saved settings; invalid entries are left out. */
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

/** Save settings under their name; return a sentence, and whether it is an error. */
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
