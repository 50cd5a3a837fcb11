/** @typedef {{ text: string, width: number, height: number }} Picture the text of an SVG, and its size */

// Registry of views that scroll. Each registers a function
// that draws all of it, which the export of figures uses.
/** @type {WeakMap<Element, () => Picture | null | undefined>} */
const pictureMakers = new WeakMap();

/**
 * @param {Element} root
 * @param {() => Picture | null | undefined} make
 */
export function registerPicture(root, make) {
  root.classList.add("dp-own-picture");
  pictureMakers.set(root, make);
}

/**
 * The complete picture of the view in a card, undefined if it registered none.
 * @param {Element} card
 */
export function drawCardPicture(card) {
  const root = card.querySelector(".dp-own-picture");
  return root ? pictureMakers.get(root)?.() : undefined;
}
