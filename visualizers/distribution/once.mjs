// A view of one step is painted once for each step that is selected.
export class Once {
  #last = "";

  constructor(paint) {
    this.paint = paint;
  }

  /** @param {Run} run */
  update(run) {
    if (run.steps[run.selected]) this.select(run, run.selected);
  }

  /** @param {Run} run */
  select(run, index) {
    const key = `${run.id}:${index}`;
    if (key === this.#last) return;
    this.#last = key;
    this.paint(run, run.steps[index]);
  }

  clear() {
    this.#last = "";
  }
}
