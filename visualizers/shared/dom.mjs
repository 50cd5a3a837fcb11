// Helpers that create DOM elements. Children become text nodes and are never parsed as HTML,
// because a model can write markup.

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attrs]
 * @param {...Content} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export const el = (tag, attrs, ...children) =>
  fillNode(document.createElement(tag), attrs, children);

/**
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attrs]
 * @param {...Content} children
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
 * @param {Content[]} children
 * @returns {T}
 */
function fillNode(node, attrs, children) {
  for (const [key, value] of Object.entries(attrs || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style" && node instanceof HTMLElement) Object.assign(node.style, value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  appendContent(node, children);
  return node;
}

/**
 * @param {Element} node
 * @param {Content} content
 */
function appendContent(node, content) {
  if (Array.isArray(content)) for (const one of content) appendContent(node, one);
  else if (content instanceof Node) node.append(content);
  else if (content !== null && content !== undefined) node.append(String(content));
}

/**
 * Set attributes of an element; numbers become strings.
 * @param {Element} node
 * @param {Record<string, string | number>} attrs
 */
export function setAttributes(node, attrs) {
  for (const [key, value] of Object.entries(attrs)) node.setAttribute(key, String(value));
}

/**
 * A scrollable region. It is focusable and labelled, so that it can be scrolled with the keyboard.
 * @param {string} label
 * @param {...Content} children
 */
export const createScroller = (label, ...children) =>
  el("div", { class: "dp-scroll", tabindex: 0, role: "region", "aria-label": label }, children);

/** @param {Content[]} columns */
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

/**
 * The text of a heading that consists of strings and elements.
 * @param {Content} parts
 */
const toHeadingText = (parts) =>
  [parts]
    .flat()
    .map((part) => (part instanceof Node ? part.textContent : part))
    .join("");

/**
 * @param {Content[]} columns
 * @param {Content[][]} rows
 */
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

/** @param {Content[]} cells */
const createTableRow = (cells) =>
  el(
    "tr",
    {},
    cells.map((cell) => el("td", { class: typeof cell === "number" ? "num" : null }, cell)),
  );

/**
 * A name followed by its value in bold.
 * @param {Content} name
 * @param {Content} value
 */
export const createFact = (name, value) => el("span", {}, name, " ", el("b", {}, value));

/**
 * @param {Content} text
 * @param {(event: MouseEvent) => void} onclick
 * @param {Attributes} [attrs]
 */
export const createButton = (text, onclick, attrs) =>
  el("button", { type: "button", class: "dp-btn", onclick, ...attrs }, text);

/**
 * Start the download of a URL and release it. The delay leaves the browser time to begin.
 * @param {string} url
 * @param {string} name
 */
export function downloadUrl(url, name) {
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 5000);
}

/**
 * @param {string} name
 * @param {string} type
 * @param {...BlobPart} parts
 */
export const saveAs = (name, type, ...parts) =>
  downloadUrl(URL.createObjectURL(new Blob(parts, { type })), name);
