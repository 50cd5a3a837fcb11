// Keeps the address bar up to date with the visible tab, its run, the step and its form.

// Browsers reject history.replaceState when it is called about 100 times in a few seconds.
const PAUSE_MS = 300;
const PAGE_PARAMETERS = /^(__|lang$)/;

// Each linkable element with a function that returns its link.
/** @type {Set<{ root: Element, link: () => string }>} */
const linkSources = new Set();
/** @type {number | undefined} */
let timer;
// Until the visitor acts, the address stays as it was opened.
let userActed = false;

/**
 * Register an element whose link becomes the address while the element is visible.
 * @param {Element} root
 * @param {() => string} link returns the query string, with its "?"
 */
export function registerLink(root, link) {
  for (const place of linkSources) if (!place.root.isConnected) linkSources.delete(place);
  linkSources.add({ root, link });
}

/**
 * Whether a query parameter belongs to the page and not to what it shows.
 * @param {string} name
 */
export const isPageParameter = (name) => PAGE_PARAMETERS.test(name);

/**
 * Adds Gradio's own parameters and the language of the current address to a link.
 * @param {string} link
 */
function addPageParameters(link) {
  const query = new URLSearchParams(link);
  for (const [name, value] of new URLSearchParams(location.search))
    if (isPageParameter(name)) query.set(name, value);
  return `?${query}`;
}

/** @param {{ root: Element }} place */
const isVisible = ({ root }) =>
  // A strategy's tab has no box, but its parts do.
  root.isConnected && [root, ...root.children].some((node) => node.getClientRects().length > 0);

/** Set the page's address to the link of the visible element. */
export function updateAddress() {
  clearTimeout(timer);
  timer = undefined;
  userActed = true;
  const place = [...linkSources].find(isVisible);
  const link = place?.link();
  if (!link) return;
  const search = addPageParameters(link);
  if (search !== location.search) history.replaceState(null, "", search + location.hash);
}

/** Update the address after a pause, unless the visitor has not acted yet. */
export function scheduleAddressUpdate() {
  if (!userActed || timer) return;
  timer = setTimeout(updateAddress, PAUSE_MS);
}

/** Start to update the address at the visitor's first click, key or input. */
export function watchUserInput() {
  /**
   * Scripted clicks are not trusted: the page opens tabs by clicking their buttons.
   * @param {Event} event
   */
  const touch = (event) => {
    if (!event.isTrusted) return;
    userActed = true;
    scheduleAddressUpdate();
  };
  for (const kind of ["click", "keyup", "input"])
    addEventListener(kind, touch, { capture: true, passive: true });
}

/** @param {unknown} template */
const templateText = (template) =>
  typeof template === "string" ? template : JSON.stringify(template);

/**
 * The task settings of a speech model as query parameters.
 * @param {Record<string, any> | null | undefined} speech
 */
const speechParameters = (speech) => ({
  language: speech?.language,
  task: speech?.task,
  timestamps: speech?.return_timestamps ? "1" : "",
});

/**
 * Return the link that fills a strategy's form with these values and runs it.
 * @param {{ [name: string]: any }} asked
 */
export const buildRunLink = ({ params, messages, template, speech, ...asked }) => {
  const chat = messages
    ? { messages: JSON.stringify(messages), template: templateText(template) }
    : {};
  const given = Object.entries({ ...asked, ...speechParameters(speech), ...chat }).filter(
    ([, value]) => value,
  );
  return `?${new URLSearchParams([...given, ["params", JSON.stringify(params)], ["pressed", "1"]])}`;
};

/**
 * Return the link to the form of a tab that belongs to no strategy.
 * @param {string} tab
 * @param {any} form
 */
export const buildFormLink = (tab, form) =>
  `?${new URLSearchParams({ tab, form: JSON.stringify(form) })}`;
