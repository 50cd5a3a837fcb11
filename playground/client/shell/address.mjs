// Keeps the address bar up to date with the visible tab, its run, the step and its form.

// Browsers reject history.replaceState when it is called about 100 times in a few seconds.
const PAUSE_MS = 300;
const KEPT = /^(__|lang$)/;

// Each linkable element with a function that returns its link.
const places = new Set();
let timer = null;
// Until the visitor acts, the address stays as it was opened.
let touched = false;

/**
 * Register an element whose link becomes the address while the element is visible.
 * @param {Element} root
 * @param {() => string} link returns the query string, with its "?"
 */
export function linked(root, link) {
  for (const place of places) if (!place.root.isConnected) places.delete(place);
  places.add({ root, link });
}

/**
 * Whether a query parameter belongs to the page and not to what it shows.
 * @param {string} name
 */
export const isOfPage = (name) => KEPT.test(name);

// Adds Gradio's own parameters and the language of the current address to a link.
function whole(link) {
  const query = new URLSearchParams(link);
  for (const [name, value] of new URLSearchParams(location.search))
    if (isOfPage(name)) query.set(name, value);
  return `?${query}`;
}

const inSight = ({ root }) => root.isConnected && root.getClientRects().length > 0;

/** Set the page's address to the link of the visible element. */
export function followNow() {
  clearTimeout(timer);
  timer = null;
  touched = true;
  const place = [...places].find(inSight);
  const link = place?.link();
  if (!link) return;
  const search = whole(link);
  if (search !== location.search) history.replaceState(null, "", search + location.hash);
}

/** Update the address after a pause, unless the visitor has not acted yet. */
export function follow() {
  if (!touched || timer) return;
  timer = setTimeout(followNow, PAUSE_MS);
}

/** Start to update the address at the visitor's first click, key or input. */
export function watchAddress() {
  // Scripted clicks are not trusted: the page opens tabs by clicking their buttons.
  const touch = (event) => {
    if (!event.isTrusted) return;
    touched = true;
    follow();
  };
  for (const kind of ["click", "keyup", "input"])
    addEventListener(kind, touch, { capture: true, passive: true });
}

const textOf = (template) => (typeof template === "string" ? template : JSON.stringify(template));

// The task settings of a speech model as query parameters.
const toldOf = (speech) => ({
  language: speech?.language,
  task: speech?.task,
  timestamps: speech?.return_timestamps ? "1" : "",
});

/**
 * Return the link that fills a strategy's form with these values and runs it.
 * @param {{ [name: string]: any }} asked
 */
export const askLink = ({ params, messages, template, speech, ...asked }) => {
  const chat = messages ? { messages: JSON.stringify(messages), template: textOf(template) } : {};
  const given = Object.entries({ ...asked, ...toldOf(speech), ...chat }).filter(
    ([, value]) => value,
  );
  return `?${new URLSearchParams([...given, ["params", JSON.stringify(params)], ["pressed", "1"]])}`;
};

/**
 * Return the link to the form of a tab that belongs to no strategy.
 * @param {string} tab
 * @param {any} form
 */
export const formLink = (tab, form) =>
  `?${new URLSearchParams({ tab, form: JSON.stringify(form) })}`;
