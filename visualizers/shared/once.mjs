// A view of one step is painted once for each step that is selected.
export class Once {
  #last = "";

  /**
   * @param {(run: Run, step: Step) => void} paint
   * @param {(run: Run, step: Step) => string | number} [also] what else makes it another picture
   */
  constructor(paint, also = () => "") {
    this.paint = paint;
    this.also = also;
  }

  /** @param {Run} run */
  update(run) {
    if (run.steps[run.selected]) this.select(run, run.selected);
  }

  /** @param {Run} run */
  select(run, index) {
    const step = run.steps[index];
    const key = `${run.id}:${index}:${this.also(run, step)}`;
    if (key === this.#last) return;
    this.#last = key;
    this.paint(run, step);
  }

  clear() {
    this.#last = "";
  }
}
