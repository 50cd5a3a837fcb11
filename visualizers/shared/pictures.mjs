// A view that scrolls knows how to draw itself whole: it offers that here, and whoever saves
// figures finds it.
const offers = new WeakMap();

export function offerPicture(root, make) {
  root.classList.add("dp-own-picture");
  offers.set(root, make);
}

// The picture that a card's view makes of itself, undefined where it does not.
export const pictureIn = (card) => offers.get(card.querySelector(".dp-own-picture"))?.();
