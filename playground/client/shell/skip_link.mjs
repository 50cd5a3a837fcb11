// The first link of the page: past the places and tabs, to what the open tab asks.

const FOCUSABLE = "textarea, input, select, button, a[href], summary";

/** @param {Element} node */
const isVisible = (node) => node.getClientRects().length > 0;

/** Let the link move the focus to the first control of the open tab. */
export function mountSkipLink() {
  addEventListener("click", (event) => {
    if (!(event.target instanceof Element) || !event.target.closest(".dp-skip")) return;
    event.preventDefault();
    const open = document.querySelectorAll(`#strategies > [role=tabpanel] :is(${FOCUSABLE})`);
    const fields = [...open].filter(isVisible);
    const prompt = fields.find((field) => field instanceof HTMLTextAreaElement);
    const first = prompt ?? fields[0];
    if (first instanceof HTMLElement) first.focus();
  });
}
