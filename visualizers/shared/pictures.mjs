// Registry of views that scroll. Each registers a function
// that draws all of it, which the export of figures uses.
const pictureMakers = new WeakMap();

export function registerPicture(root, make) {
  root.classList.add("dp-own-picture");
  pictureMakers.set(root, make);
}

// The complete picture of the view in a card, undefined if it registered none.
export const drawCardPicture = (card) =>
  pictureMakers.get(card.querySelector(".dp-own-picture"))?.();
