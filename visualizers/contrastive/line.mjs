// The text so far, reduced to the tokens that candidates resemble, their neighbours and the end. An
// arc connects the new token with each of them.
import { createScroller, el, setAttributes, svg } from "../shared/dom.mjs";
import { tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { positionText, tokenAt } from "./words.mjs";

const HEIGHT = 66;
const NEIGHBOURS = 1;
const LAST_TOKENS = 4;

/**
 * The positions that are shown, in order. The decoder of an
 * encoder-decoder model starts with a token at position −1.
 * @param {Run} run
 * @param {ContrastiveDetail} detail
 * @param {number[]} ids
 */
function shownPositions(run, detail, ids) {
  const first = run.model.is_encoder_decoder ? -1 : 0;
  const wanted = new Set();
  for (const { position } of detail.options)
    for (let i = position - NEIGHBOURS; i <= position + NEIGHBOURS; i++) wanted.add(i);
  for (let i = ids.length - LAST_TOKENS; i < ids.length; i++) wanted.add(i);
  const there = [...wanted].filter((i) => i >= first && i < ids.length);
  return { first, places: there.sort((a, b) => a - b) };
}

/** @param {HTMLElement} node */
const middleX = (node) => node.offsetLeft + node.offsetWidth / 2;

/**
 * @param {number} from
 * @param {number} to
 * @param {boolean} chosen
 */
function createArc(from, to, chosen) {
  const high = Math.min(HEIGHT - 6, 14 + Math.abs(from - to) / 5);
  const [low, top] = [HEIGHT - 1, HEIGHT - high];
  const d = `M${from} ${low} C${from} ${top} ${to} ${top} ${to} ${low}`;
  return svg("path", { d, class: chosen ? "on" : "", fill: "none" });
}

export class ContextLine {
  /** @type {SVGPathElement[]} */
  #paths = [];
  #line = el("div", { class: "cs-line", role: "img" });
  #arcs = svg("svg", { class: "cs-arcs", height: HEIGHT, "aria-hidden": "true" });

  constructor() {
    this.node = createScroller(tr("Where the candidates look back to"), this.#line);
    this.node.className = "dp-scroll cs-scroll";
  }

  clear() {
    this.#paths = [];
    this.#line.replaceChildren();
  }

  /**
   * @param {Run} run
   * @param {ContrastiveDetail} detail
   * @param {number[]} ids
   */
  draw(run, detail, ids) {
    const { first, places } = shownPositions(run, detail, ids);
    const nodes = new Map();
    const items = [];
    let previous = first - 1;
    for (const i of places) {
      if (i > previous + 1) items.push(el("span", { class: "gap" }, `⋯${i - previous - 1}`));
      const linked = detail.options.some((o) => o.position === i) ? " linked" : "";
      const attrs = { class: `tok${linked}`, title: tr("token {n}", { n: i + 1 }) };
      nodes.set(i, el("span", attrs, tokenAt(run, ids, i)));
      items.push(nodes.get(i));
      previous = i;
    }
    const winner = detail.options[detail.chosen];
    const slot = el("span", { class: "tok slot" }, tokenLabel(run, winner.token_id));
    this.#line.replaceChildren(this.#arcs, ...items, slot);
    this.#drawArcs(detail, nodes, slot);
    this.node.scrollLeft = this.node.scrollWidth;
    const like = tokenAt(run, ids, winner.position);
    const said = tr("“{token}” is most similar to “{like}”{place}", {
      token: tokenLabel(run, winner.token_id),
      like,
      place: positionText(winner.position),
    });
    this.#line.setAttribute("aria-label", said);
  }

  /**
   * Positions of the words are known only once they are in the
   * page. The chosen arc is drawn last, on top of the others.
   * @param {ContrastiveDetail} detail
   * @param {Map<number, HTMLElement>} nodes
   * @param {HTMLElement} slot
   */
  #drawArcs({ options, chosen }, nodes, slot) {
    setAttributes(this.#arcs, { width: slot.offsetLeft + slot.offsetWidth });
    this.#paths = options.map((o, k) =>
      createArc(middleX(slot), middleX(nodes.get(o.position) ?? slot), k === chosen),
    );
    const others = this.#paths.filter((_, k) => k !== chosen);
    this.#arcs.replaceChildren(...others, this.#paths[chosen]);
  }

  /** @param {number} chosen */
  mark(chosen) {
    this.#paths.forEach((path, i) => {
      path.classList.toggle("hot", i === chosen);
    });
  }
}
