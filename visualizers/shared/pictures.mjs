// Registry of views that scroll. Each registers a function
// that draws all of it, which the export of figures uses.
const offers = new WeakMap();

export function offerPicture(root, make) {
  root.classList.add("dp-own-picture");
  offers.set(root, make);
}

// The complete picture of the view in a card, undefined if it registered none.
export const pictureIn = (card) => offers.get(card.querySelector(".dp-own-picture"))?.();
