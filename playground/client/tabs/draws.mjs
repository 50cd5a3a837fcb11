// The draws tab: samples one prompt with many seeds and shows the texts as a prefix tree.

import { createPrefixTree } from "../../../visualizers/prefix_tree/view.mjs";
import { el } from "../../../visualizers/shared/dom.mjs";
import { parseMessage, said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Field } from "../forms/field.mjs";
import { Form } from "../forms/form.mjs";
import { MediaFields } from "../forms/media_fields.mjs";
import { ModelPicker } from "../forms/model_picker.mjs";
import { PromptField } from "../forms/prompt_field.mjs";
import { beginJob, createJobButtons, receiveProgress } from "../jobs/job.mjs";
import { fetchRecorded } from "../runs/recorded_runs.mjs";
import { buildFormLink, registerLink } from "../shell/address.mjs";
import { registerOtherTab } from "../shell/other_tabs.mjs";
import { store } from "../shell/page_state.mjs";
import { getDeclaration, getStrategy } from "../shell/spec.mjs";
import { mountLayout } from "../shell/tab_layout.mjs";
import { withMedia } from "../shell/visitor_media.mjs";

const KEY = "draws";
const ABOUT = tr(
  "Draw the same prompt with many seeds. A branch is as wide as it was often drawn; the number next to it is the model's exact probability. More draws bring the two closer.",
);

/**
 * @param {HTMLElement} root
 * @param {Context["trigger"]} trigger
 */
export function mountDraws(root, trigger) {
  const { draws, seed } = getDeclaration();
  const tree = el("div", { id: "draws-tree", class: "dp-stage dp-draws" });
  const shown = createPrefixTree(tree);
  const models = createModels();
  const first = new Field({ ...seed, label: tr("First seed") }, "draws-seed");
  const form = new Form(draws.params, "draws", {}, { only: draws.only });
  models.form = form;
  const asked = () => {
    const { draws: count, ...params } = form.values();
    const given = { ...prompt.ask(), ...media.ask(), ...models.values() };
    return { ...given, draws: count, seed: first.value, params };
  };
  /** @type {ReturnType<typeof asked> | null} the form of the last run, null for the recorded example */
  let latest = null;
  // Error of the link that opened the tab, empty for none.
  let refused = "";
  const run = (linked = false) =>
    media.ready(() => {
      const wanted = asked();
      latest = wanted;
      /** @param {object} more */
      const send = async (more) => trigger("input", { ...(await withMedia(wanted)), ...more });
      beginJob(KEY, send, buildFormLink("draws", wanted), { linked });
    });
  const prompt = new PromptField("draws-prompt", {
    prompt: draws.prompt,
    go: () => run(),
    models: () => [models.values().model],
    forms: () => [form],
  });
  const media = new MediaFields("draws");
  const follow = () => followModel(models, media, prompt);
  for (const one of [models, media]) one.learned = follow;
  models.model.box.addEventListener("change", follow);
  const buttons = createJobButtons(KEY, tr("Draw"), () => run());
  mountLayout(root, tr("Many draws"), ABOUT, {
    ask: [media.box, prompt.box, el("div", { class: "f-acts" }, buttons)],
    right: tree,
    settings: [...models.boxes, form.weights, first.box, form.box],
  });
  first.value = 0;
  const example = async () => {
    const message = await fetchRecorded("draws");
    if (latest) return;
    shown.show(message);
    if (refused) shown.refuse(refused);
  };
  registerOtherTab("draws", {
    restore({ form: given }, itself) {
      if (!given) return;
      models.show(given.model, given.assistant);
      media.show(given);
      follow();
      form.show({ ...given.values, draws: given.draws ?? draws.params[0].value });
      prompt.show(given);
      first.value = given.seed;
      if (itself) run(true);
    },
    refuse: (error) => {
      refused = said(error);
      shown.refuse(refused);
    },
  });
  registerLink(root, () => (latest ? buildFormLink("draws", latest) : "?tab=draws"));
  example().catch(() => {});
  store.watch({ active: (key) => key === KEY && shown.say(store.activity(KEY)) });
  return { receive: (/** @type {string} */ text) => receiveMessage(text, shown) };
}

// Only this playground draws with known probabilities, so it draws from a server's candidates too.
const createModels = () =>
  new ModelPicker(getStrategy("sampling"), KEY, { addresses: true, drawer: "own" });

/**
 * Show the fields for the media that the chosen model takes.
 * @param {ModelPicker} models
 * @param {MediaFields} media
 * @param {PromptField} prompt
 */
function followModel(models, media, prompt) {
  media.follow([models.values().model]);
  prompt.optional(media.any);
}

/**
 * @param {string} text a message of the server, as JSON
 * @param {ReturnType<typeof createPrefixTree>} shown
 */
function receiveMessage(text, shown) {
  if (!text) return;
  const message = parseMessage(text);
  receiveProgress(KEY, message);
  if (message.kind !== "progress") shown.show(message);
}
