// Gives a file to an upload element of Gradio, as if a person had chosen it.

const TRIES = 120;

const nextFrame = () => new Promise((resolve) => requestAnimationFrame(resolve));

/**
 * @param {string} selector of the upload element
 * @param {File} file
 */
export async function uploadFile(selector, file) {
  const box = document.querySelector(selector);
  /** @type {HTMLElement | null | undefined} */
  const clear = box?.querySelector("button[aria-label*=lear], button[title*=lear]");
  // Gradio shows the last file in place of its input.
  clear?.click();
  for (let i = 0; i < TRIES; i++) {
    /** @type {HTMLInputElement | null | undefined} */
    const input = box?.querySelector("input[type=file]");
    if (input) {
      const transfer = new DataTransfer();
      transfer.items.add(file);
      input.files = transfer.files;
      input.dispatchEvent(new Event("change", { bubbles: true }));
      return;
    }
    await nextFrame();
  }
}
