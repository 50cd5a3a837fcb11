// Runs in a saved page: hand the record to the store as if it had just been decoded.
import { plotlyFrom } from "../../visualizers/shared/plotly.mjs";
import { stages, store } from "./runs.mjs";
import { VIEWS } from "./views.mjs";

export function open({ trace, shown, fields, texts, visuals }) {
  const { steps, outputs, metrics, timing, notes, pieces, ...header } = trace;
  // Plotly stands in the page already: what is loaded in its place may be empty.
  plotlyFrom("data:text/javascript,");
  stages.register(VIEWS);
  const stage = document.querySelector(".dp-stage");
  stages.mount(stage, { strategy: trace.strategy, visuals }, () => {});
  const { strategy } = trace;
  const say = (seq, message) =>
    store.receive(JSON.stringify({ run: "saved", seq, strategy, ...message }));
  const known = { ...header, notes, metrics, timing, pieces, fields };
  say(0, { kind: "start", link: location.href, header: known });
  say(1, { kind: "delta", steps, shown, pieces, texts: texts.map((text, i) => [i, 0, text]) });
  say(2, { kind: "finish", rest: { outputs, metrics, timing, notes, pieces } });
}
