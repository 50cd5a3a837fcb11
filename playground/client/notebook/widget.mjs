// The widget of a notebook, as anywidget loads it: a frame with the live page. The messages of the run are
// values of the model, so that a view which comes late, or a notebook without a kernel, has all of them.

/**
 * @typedef {object} Model
 * @property {(name: string) => any} get
 * @property {(event: string, act: () => void) => void} on
 * @property {(event: string, act: () => void) => void} off
 * @property {(content: object) => void} send
 */

// Messages move from one value to the next, so that a long run is not sent again with each of them.
const LEVELS = ["oldest", "older", "newer", "newest"];
const COUNT = "count";
// marimo sets the values of one update one after another, in any order.
const CHANGED = [...LEVELS, COUNT].map((name) => `change:${name}`);
const REFUSED = "change:refusal";
// A notebook that moves a cell removes its view and makes another at once.
const LEFT_AFTER_MS = 1000;

/** How many views draw a model now. @type {WeakMap<Model, number>} */
const views = new WeakMap();

/**
 * @param {Model} model
 * @param {number} change
 */
function countViews(model, change) {
  const count = (views.get(model) ?? 0) + change;
  views.set(model, count);
  return count;
}

/** @param {Model} model */
function createFrame(model) {
  const frame = document.createElement("iframe");
  frame.title = model.get("name");
  frame.style.cssText = `width: 100%; height: ${model.get("height")}; border: 0`;
  frame.srcdoc = model.get("page");
  return frame;
}

/** @param {Model} model */
function createRefusal(model) {
  const says = document.createElement("p");
  says.setAttribute("role", "alert");
  says.textContent = model.get("refusal");
  return says;
}

/** @param {{ model: Model, el: HTMLElement }} place */
function render({ model, el }) {
  countViews(model, 1);
  const frame = createFrame(model);
  let ready = false;
  let sent = 0;
  /** Index of the chosen step. @type {number | null} */
  let selected = null;

  const post = () => {
    const all = LEVELS.flatMap((level) => model.get(level));
    // Until all values of an update are set, a message is missing or in two of them.
    if (!ready || all.length !== model.get(COUNT) || (sent && all.length === sent)) return;
    const texts = all.slice(sent);
    // In some notebooks the page has another origin, so none can be named here.
    frame.contentWindow?.postMessage({ texts, selected: sent ? null : selected }, "*");
    sent += texts.length;
  };
  const refuse = () => model.get("refusal") && el.replaceChildren(createRefusal(model));
  /** @param {MessageEvent} event */
  const hear = ({ source, data }) => {
    if (source !== frame.contentWindow) return;
    if (data.ready) {
      [ready, sent] = [true, 0];
      post();
    }
    if (data.stop) model.send({ stop: true });
    if (data.selected !== undefined) {
      selected = data.selected;
      model.send({ selected });
    }
  };

  addEventListener("message", hear);
  for (const change of CHANGED) model.on(change, post);
  model.on(REFUSED, refuse);
  el.replaceChildren(frame);
  refuse();
  return () => {
    removeEventListener("message", hear);
    for (const change of CHANGED) model.off(change, post);
    model.off(REFUSED, refuse);
    if (countViews(model, -1)) return;
    setTimeout(() => views.get(model) || model.send({ left: true }), LEFT_AFTER_MS);
  };
}

export default { render };
