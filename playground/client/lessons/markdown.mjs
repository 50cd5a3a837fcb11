// Creates elements from the server's parsed Markdown. Only the listed tags are allowed and no HTML
// is parsed, because a lesson may come from anyone.
import { el } from "../../../visualizers/shared/dom.mjs";

const MATH_NAMESPACE = "http://www.w3.org/1998/Math/MathML";
const TAGS = new Set(
  "p em strong s ul ol li blockquote table thead tbody tr th td code pre br span a".split(" "),
);
const MATH_TAGS = new Set(
  "math mrow mi mn mo mtext mspace mfrac msup msub msubsup msqrt mroot munder mover munderover mtable mtr mtd mstyle mpadded mphantom menclose".split(
    " ",
  ),
);

/**
 * Create the nodes of parsed Markdown. An unknown tag becomes a span.
 * @typedef {string | [string, Record<string, string>, Tree[]]} Tree
 * @param {Tree[]} parts
 * @returns {(Node | string)[]}
 */
export const renderTree = (parts) => parts.map(renderNode);

/**
 * @param {Tree} part
 * @returns {Node | string}
 */
function renderNode(part) {
  if (typeof part === "string") return part;
  const [tag, attributes, children] = part;
  if (MATH_TAGS.has(tag)) return renderMath(tag, attributes, children);
  if (tag === "a") return renderLink(attributes.href, children);
  return el(
    TAGS.has(tag) ? /** @type {any} */ (tag) : "span",
    allowedAttributes(tag, attributes),
    renderTree(children),
  );
}

/**
 * @param {string} tag
 * @param {Record<string, string>} attributes
 */
const allowedAttributes = (tag, attributes) => (tag === "span" ? { class: attributes.class } : {});

/**
 * @param {string} tag
 * @param {Record<string, string>} attributes
 * @param {Tree[]} children
 */
function renderMath(tag, attributes, children) {
  const node = document.createElementNS(MATH_NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...renderTree(children));
  return node;
}

/**
 * External links open in a new tab, links within the playground in this one. Others are plain text.
 * @param {string} href
 * @param {Tree[]} children
 */
function renderLink(href, children) {
  if (href.startsWith("?")) return el("a", { href }, renderTree(children));
  if (!href.startsWith("https://")) return el("span", {}, renderTree(children));
  return el("a", { href, target: "_blank", rel: "noopener noreferrer" }, renderTree(children));
}
