// The description of a strategy.
import { el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/** @param {import("../shell/spec.mjs").StrategySpec} strategy */
export function createAbout({ summary, helps, turns, paper }) {
  /** @type {(title: string, text: string) => HTMLElement} */
  const more = (title, text) => el("details", {}, el("summary", {}, title), el("p", {}, text));
  return [
    el("p", {}, summary, " ", el("cite", {}, tr("Source: {paper}.", { paper }))),
    more(tr("When does it help, and when does it hurt?"), helps),
    more(tr("What does its main parameter do?"), turns),
  ];
}
