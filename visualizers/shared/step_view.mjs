// A view of the selected step that repaints only when another step is selected.
export class StepView {
  /** @type {unknown[]} */
  #painted = [];

  /**
   * @param {(run: Run, step: Step) => void} paint
   * @param {(run: Run, step: Step) => unknown[]} [also] values whose change also repaints
   */
  constructor(paint, also = () => []) {
    this.paint = paint;
    this.also = also;
  }

  /** @param {Run} run */
  update(run) {
    if (run.selected !== null && run.steps[run.selected]) this.select(run, run.selected);
  }

  /**
   * @param {Run} run
   * @param {number} index
   */
  select(run, index) {
    const step = run.steps[index];
    const shown = [run.id, index, run.offset, ...this.also(run, step)];
    if (shown.every((value, i) => value === this.#painted[i])) return;
    this.#painted = shown;
    this.paint(run, step);
  }

  clear() {
    this.#painted = [];
  }
}
