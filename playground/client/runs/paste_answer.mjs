// A field for the answer of a server, which is opened like a file.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { uploadFile } from "../shell/gradio_upload.mjs";

const HELP_TEXT = tr(
  "From OpenAI, vLLM, llama.cpp, Ollama or TGI, as JSON or as a stream. Ask the server for log-probabilities.",
);
const REQUEST_HELP = tr("With it you also see the prompt and the settings.");

/**
 * @param {string} label
 * @param {string} help
 */
function createField(label, help) {
  const field = el("textarea", { class: "dp-input", rows: 4, spellcheck: false });
  const node = el(
    "label",
    { class: "pa-field" },
    el("span", { class: "dp-label" }, label),
    field,
    el("span", { class: "dp-note" }, help),
  );
  return { field: /** @type {HTMLTextAreaElement} */ (field), node };
}

/**
 * The file of an answer; with its request, both are in one object.
 * @param {string} answer
 * @param {string} request
 */
function createFile(answer, request) {
  const text = request ? JSON.stringify({ request_text: request, response_text: answer }) : answer;
  return new File([text], `${tr("pasted answer")}.txt`, { type: "text/plain" });
}

/** @param {HTMLElement} root */
export function mountPasteAnswer(root) {
  const answer = createField(tr("A server's answer"), HELP_TEXT);
  const request = createField(tr("Its request, if you have it"), REQUEST_HELP);
  const open = createButton(tr("Open this answer"), () =>
    uploadFile("#replay-file", createFile(answer.field.value, request.field.value.trim())),
  );
  const update = () => open.toggleAttribute("disabled", !answer.field.value.trim());
  answer.field.addEventListener("input", update);
  update();
  root.replaceChildren(
    el(
      "details",
      { class: "pa-fold" },
      el("summary", {}, tr("Paste a server's answer")),
      answer.node,
      request.node,
      open,
    ),
  );
}
