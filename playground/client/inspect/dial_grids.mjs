// The map of two dials of the run shown, computed when the visitor asks for it.
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { store } from "../shell/page_state.mjs";
import { askWhenReady } from "../shell/questions.mjs";
import { addPieces } from "./what_if_questions.mjs";

const DIALS = { dial: "temperature", second: "top_p" };

export class DialGrids {
  #question = new StoppableQuestion();

  /**
   * Fetch the map; return why there is none, in one sentence, or an empty text.
   * @param {Run} run
   */
  async fetch(run) {
    const asked = { action: "dial_grid", run: run.id, entry: run.entry, ...DIALS };
    const answer = await this.#question.ask((press) => askWhenReady({ ...asked, press }));
    if (!answer || answer.stopped) return tr("Stopped.");
    if (answer.later) return tr("Other maps are being computed. Try again in a moment.");
    if (answer.error ?? answer.refused) return said(answer.error ?? answer.refused);
    addPieces(run, answer.grid.pieces);
    run.grid = { ...answer.grid, view: answer.view };
    store.tell("changed", run);
    return "";
  }

  stop() {
    this.#question.stop();
  }
}
