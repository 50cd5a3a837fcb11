// View with one line on the status of a run.
import { createButton, el } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { tr } from "../shared/tr.mjs";

const STATUS_TEXT = {
  running: tr("Decoding…"),
  finished: tr("Done"),
  stopped: tr("Stopped; what was decoded is kept"),
  failed: "",
  paused: tr("Replaying"),
  replayed: tr("Recorded: every number is as it was measured"),
  predicting: tr("What comes next is hidden until you have guessed it"),
  recorded: tr("A recorded run. Change a setting, then press Run to make your own."),
};

const SERVED_TEXT = tr("Decoded by a server: every number is as it was reported");
const DRAWN_HERE_TEXT = tr("Drawn here, from the probabilities that a server reported");
// Its notes are in the view of what the server reported.
const ENDED_STATUSES = ["finished", "recorded", "replayed"];

/** @type {Record<string, string>} */
const ENDING_TEXT = {
  eos: tr(" · finished by itself"),
  length: tr(" · reached the token limit"),
  stop: tr(" · ended before the token limit"),
};

/** @param {Run} run */
function statusText(run) {
  const endings = run.status === "finished" ? run.outputs.map((o) => o.finish_reason) : [];
  const reason = [...new Set(endings)].map((ending) => ENDING_TEXT[ending] ?? "").join("");
  if (run.served && ENDED_STATUSES.includes(run.status))
    return (run.served.choice === "own" ? DRAWN_HERE_TEXT : SERVED_TEXT) + reason;
  if (run.served) return STATUS_TEXT[run.status] + reason;
  return STATUS_TEXT[run.status] + reason + (run.notes || []).map((n) => ` · ${said(n)}`).join("");
}

/** @type {ViewSpec} */
export const status = {
  title: tr("Status"),
  heading: false,
  mount(root, ctx) {
    const again = createButton(tr("Try again"), () => ctx.again?.(), { class: "dp-btn st-again" });
    again.hidden = true;
    const line = el("div", { class: "dp-status", role: "status", "aria-live": "polite" });
    /** @type {Run | null} */
    let shown = null;
    /** @type {Activity | undefined} */
    let activity;
    root.append(line, again);
    const draw = () => {
      const bad = !activity && shown?.error;
      const busy = activity && activity.phase !== "stopped";
      line.className = `dp-status${bad ? " bad" : ""}${busy ? " busy" : ""}`;
      const text = activity
        ? said(activity.says)
        : shown
          ? said(shown.error) || statusText(shown)
          : "";
      // Setting the same text again would make screen readers repeat it.
      if (line.textContent !== text) line.textContent = text;
      again.hidden = !(bad && shown?.again && ctx.again);
    };
    return {
      update(run) {
        shown = run;
        draw();
      },
      active(now) {
        // Screen readers announce a new phase, not every tick of its counter.
        const ticks = now && now.phase === activity?.phase;
        line.setAttribute("aria-live", ticks ? "off" : "polite");
        activity = now;
        draw();
      },
      select() {},
      clear() {
        shown = null;
        draw();
      },
    };
  },
};
