// The address bar follows what is in sight: the tab, its run and the step, and what was asked elsewhere.

// A browser refuses an address that changes a hundred times in a few seconds.
const PAUSE_MS = 300;
const KEPT = /^(__|lang$)/;

// What can be linked: its element, and the address of what it shows.
const places = new Set();
let timer = null;
// Nobody has touched the page yet: its address stays what it was.
let touched = false;

/**
 * @param {Element} root
 * @param {() => string} link the part behind "?", with it
 */
export function linked(root, link) {
  for (const place of places) if (!place.root.isConnected) places.delete(place);
  places.add({ root, link });
}

/** @param {string} name of what an address says of the page, whatever it shows */
export const isOfPage = (name) => KEPT.test(name);

// What Gradio's own parameters say stays, and so does the language.
function whole(link) {
  const query = new URLSearchParams(link);
  for (const [name, value] of new URLSearchParams(location.search))
    if (isOfPage(name)) query.set(name, value);
  return `?${query}`;
}

const inSight = ({ root }) => root.isConnected && root.getClientRects().length > 0;

/** The address of what is in sight, which is the page's from now on. */
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

export function follow() {
  if (!touched || timer) return;
  timer = setTimeout(followNow, PAUSE_MS);
}

export function watchAddress() {
  // The page itself opens tabs by pressing their buttons.
  const touch = (event) => {
    if (!event.isTrusted) return;
    touched = true;
    follow();
  };
  for (const kind of ["click", "keyup", "input"])
    addEventListener(kind, touch, { capture: true, passive: true });
}

const textOf = (template) => (typeof template === "string" ? template : JSON.stringify(template));

// What a speech model is told, as an address says it.
const toldOf = (speech) => ({
  language: speech?.language,
  task: speech?.task,
  timestamps: speech?.return_timestamps ? "1" : "",
});

/**
 * The address that runs what a strategy's form says, as the form says it.
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
 * The address of a form that is no strategy's.
 * @param {string} tab
 * @param {any} form
 */
export const formLink = (tab, form) =>
  `?${new URLSearchParams({ tab, form: JSON.stringify(form) })}`;
