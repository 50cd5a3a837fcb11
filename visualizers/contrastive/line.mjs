// The text so far, reduced to the tokens that candidates resemble, their neighbours and the end. An
// arc connects the new token with each of them.
import { el, scroller, svg } from "../shared/dom.mjs";
import { piece } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { nameAt, placeOf } from "./words.mjs";

const HEIGHT = 66;
const NEAR = 1;
const LAST = 4;

/**
 * The positions that are shown, in order. The decoder of an
 * encoder-decoder model starts with a token at position −1.
 * @param {Run} run
 */
function placesOf(run, detail, ids) {
  const first = run.model.is_encoder_decoder ? -1 : 0;
  const wanted = new Set();
  for (const { position } of detail.options)
    for (let i = position - NEAR; i <= position + NEAR; i++) wanted.add(i);
  for (let i = ids.length - LAST; i < ids.length; i++) wanted.add(i);
  const there = [...wanted].filter((i) => i >= first && i < ids.length);
  return { first, places: there.sort((a, b) => a - b) };
}

const middle = (node) => node.offsetLeft + node.offsetWidth / 2;

function arc(from, to, chosen) {
  const high = Math.min(HEIGHT - 6, 14 + Math.abs(from - to) / 5);
  const [low, top] = [HEIGHT - 1, HEIGHT - high];
  const d = `M${from} ${low} C${from} ${top} ${to} ${top} ${to} ${low}`;
  return svg("path", { d, class: chosen ? "on" : "", fill: "none" });
}

export class Line {
  #paths = [];
  #line = el("div", { class: "cs-line", role: "img" });
  #arcs = svg("svg", { class: "cs-arcs", height: HEIGHT, "aria-hidden": "true" });

  constructor() {
    this.node = scroller(tr("Where the candidates look back to"), this.#line);
    this.node.className = "dp-scroll cs-scroll";
  }

  clear() {
    this.#paths = [];
    this.#line.replaceChildren();
  }

  /** @param {Run} run */
  draw(run, detail, ids) {
    const { first, places } = placesOf(run, detail, ids);
    const nodes = new Map();
    const items = [];
    let previous = first - 1;
    for (const i of places) {
      if (i > previous + 1) items.push(el("span", { class: "gap" }, `⋯${i - previous - 1}`));
      const linked = detail.options.some((o) => o.position === i) ? " linked" : "";
      const attrs = { class: `tok${linked}`, title: tr("token {n}", { n: i + 1 }) };
      nodes.set(i, el("span", attrs, nameAt(run, ids, i)));
      items.push(nodes.get(i));
      previous = i;
    }
    const winner = detail.options[detail.chosen];
    const slot = el("span", { class: "tok slot" }, piece(run, winner.token_id));
    this.#line.replaceChildren(this.#arcs, ...items, slot);
    this.#bend(detail, nodes, slot);
    this.node.scrollLeft = this.node.scrollWidth;
    const like = nameAt(run, ids, winner.position);
    const said = tr("“{token}” is most similar to “{like}”{place}", {
      token: piece(run, winner.token_id),
      like,
      place: placeOf(winner.position),
    });
    this.#line.setAttribute("aria-label", said);
  }

  // Positions of the words are known only once they are in the
  // page. The chosen arc is drawn last, on top of the others.
  #bend({ options, chosen }, nodes, slot) {
    this.#arcs.setAttribute("width", slot.offsetLeft + slot.offsetWidth);
    this.#paths = options.map((o, k) =>
      arc(middle(slot), middle(nodes.get(o.position)), k === chosen),
    );
    const others = this.#paths.filter((_, k) => k !== chosen);
    this.#arcs.replaceChildren(...others, this.#paths[chosen]);
  }

  mark(chosen) {
    this.#paths.forEach((path, i) => {
      path.classList.toggle("hot", i === chosen);
    });
  }
}
