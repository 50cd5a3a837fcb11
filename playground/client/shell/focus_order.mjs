// The Tab key follows what is seen: a strategy's prompt is above the row of strategies, but comes after
// it in the document, because Gradio draws its row of tabs first.

const FOCUSABLE = "textarea, input, select, button, a[href], summary";

/**
 * List what the Tab key reaches in an element, in order.
 * @param {Element | null} node
 * @returns {HTMLElement[]}
 */
const listStops = (node) =>
  /** @type {HTMLElement[]} */ ([...(node?.querySelectorAll(FOCUSABLE) ?? [])]).filter(
    (stop) => stop.tabIndex >= 0 && !stop.matches(":disabled") && stop.getClientRects().length > 0,
  );

/** List the stops of the header, the prompt, the strategies and the dials, as they are seen. */
function listParts() {
  const prompt = [...document.querySelectorAll(".dp-explore > .dp-top")].find(
    (top) => top.getClientRects().length > 0,
  );
  if (!prompt) return [];
  const header = document.querySelector(".dp-places");
  const strategies = document.querySelector("#strategies > .tab-wrapper > [role=tablist]");
  const dials = prompt.parentElement?.querySelector(".dp-dials") ?? null;
  return [header, prompt, strategies, dials].map(listStops).filter((stops) => stops.length);
}

/** @param {KeyboardEvent} event */
function followSight(event) {
  const { key, shiftKey, ctrlKey, altKey, metaKey, defaultPrevented } = event;
  if (key !== "Tab" || ctrlKey || altKey || metaKey || defaultPrevented) return;
  const parts = listParts();
  const edge = shiftKey ? 0 : -1;
  const at = parts.findIndex((stops) => stops.at(edge) === document.activeElement);
  const next = at < 0 ? null : parts[at + (shiftKey ? -1 : 1)]?.at(shiftKey ? -1 : 0);
  if (!next) return;
  event.preventDefault();
  next.focus();
}

/** Let the Tab key go from the header to the prompt, the strategies and the dials. */
export const mountFocusOrder = () => addEventListener("keydown", followSight);
