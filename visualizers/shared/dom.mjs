// Helpers that create DOM elements. Children become text nodes and are never parsed as HTML,
// because a model can write markup.

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attrs]
 * @param {...any} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export const el = (tag, attrs, ...children) =>
  fillNode(document.createElement(tag), attrs, children);

/**
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attrs]
 * @param {...any} children
 * @returns {SVGElementTagNameMap[T]}
 */
export const svg = (tag, attrs, ...children) =>
  fillNode(document.createElementNS("http://www.w3.org/2000/svg", tag), attrs, children);

/**
 * Attributes by name. A name that begins with "on" adds a
 * listener; null, undefined and false are skipped.
 * @typedef {Record<string, any>} Attributes
 */

/**
 * @template {Element} T
 * @param {T} node
 * @param {Attributes | undefined} attrs
 * @param {any[]} children
 * @returns {T}
 */
function fillNode(node, attrs, children) {
  for (const [key, value] of Object.entries(attrs || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style" && node instanceof HTMLElement) Object.assign(node.style, value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Number.POSITIVE_INFINITY)) {
    if (child === null || child === undefined) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/**
 * Set attributes of an element; numbers become strings.
 * @param {Element} node
 * @param {Record<string, string | number>} attrs
 */
export function setAttributes(node, attrs) {
  for (const [key, value] of Object.entries(attrs)) node.setAttribute(key, String(value));
}

// A scrollable region. It is focusable and labelled, so that it can be scrolled with the keyboard.
export const createScroller = (label, ...children) =>
  el("div", { class: "dp-scroll", tabindex: 0, role: "region", "aria-label": label }, children);

export const createTableHead = (columns) =>
  el(
    "thead",
    {},
    el(
      "tr",
      {},
      columns.map((c) => el("th", { scope: "col" }, c)),
    ),
  );

// The text of a heading that consists of strings and elements.
const toHeadingText = (parts) =>
  [parts]
    .flat()
    .map((part) => (part instanceof Node ? part.textContent : part))
    .join("");

export const createTable = (columns, rows) =>
  createScroller(
    columns.map(toHeadingText).join(", "),
    el(
      "table",
      { class: "dp-table" },
      createTableHead(columns),
      el("tbody", {}, rows.map(createTableRow)),
    ),
  );

const createTableRow = (cells) =>
  el(
    "tr",
    {},
    cells.map((cell) => el("td", { class: typeof cell === "number" ? "num" : null }, cell)),
  );

// A name followed by its value in bold.
export const createFact = (name, value) => el("span", {}, name, " ", el("b", {}, value));

export const createButton = (text, onclick, attrs) =>
  el("button", { type: "button", class: "dp-btn", onclick, ...attrs }, text);

// Start the download of a URL and release it. The delay leaves the browser time to begin.
export function downloadUrl(url, name) {
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 5000);
}

export const saveAs = (name, type, ...parts) =>
  downloadUrl(URL.createObjectURL(new Blob(parts, { type })), name);
