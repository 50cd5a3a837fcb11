import { el, svg, table } from "../shared/dom.mjs";
import { piece } from "../shared/text.mjs";

const HIGH = 170,
  LEFT = 40,
  FOOT = 26;
const fixed = (x, digits = 2) => x.toFixed(digits).replace("-", "−");

// The exact one-sided tail of a binomial, as engine/watermark/statistics.py has it; a test compares them.
const G = [
  676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
];
function lgamma(x) {
  let sum = 0.99999999999980993;
  x -= 1;
  G.forEach((g, i) => {
    sum += g / (x + i + 1);
  });
  const t = x + G.length - 0.5;
  return 0.5 * Math.log(2 * Math.PI) + (x + 0.5) * Math.log(t) - t + Math.log(sum);
}
export function binomialTail(hits, trials, chance) {
  if (hits <= 0) return 1;
  const whole = lgamma(trials + 1),
    logs = [];
  for (let k = hits; k <= trials; k++)
    logs.push(
      whole -
        lgamma(k + 1) -
        lgamma(trials - k + 1) +
        k * Math.log(chance) +
        (trials - k) * Math.log1p(-chance),
    );
  const top = Math.max(...logs);
  return Math.min(1, Math.exp(top) * logs.reduce((sum, v) => sum + Math.exp(v - top), 0));
}
const power = (p) =>
  p >= 0.0001
    ? p.toFixed(4)
    : p > 0
      ? p
          .toExponential(1)
          .replace("e-", " · 10⁻")
          .replace(/⁻(\d+)$/, (_, d) => `⁻${[...d].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]).join("")}`)
      : "below 10⁻³⁰⁰";
const zOf = (hits, trials, expected) =>
  (hits - expected * trials) / Math.sqrt(trials * expected * (1 - expected));
const hitsOf = (d) =>
  d.g_values.length ? d.g_values.reduce((a, b) => a + b, 0) : d.is_green ? 1 : 0;

export const watermark = {
  title: "The mark in the text",
  empty:
    "Every token as the detector sees it: green or red, or its keyed bits; the count, z and p; and z growing along the text.",
  wide: true,
  mount(root, ctx) {
    const which = el("select", {
      class: "wm-which",
      "aria-label": "Sequence",
      onchange: () => {
        chosen = Number(which.value);
        rebuild();
      },
    });
    const text = el("div", {
      class: "wm-text",
      role: "group",
      "aria-label": "Generated text with its watermark",
    });
    const verdict = el("p", { class: "wm-verdict", "aria-live": "polite" }),
      numbers = el("div", { class: "dp-costs" }),
      facts = el("p", { class: "dp-note wm-facts" });
    const plot = svg("svg", { class: "wm-plot", role: "img" });
    const legend = el("div", { class: "dp-legend" }),
      tableBody = el("div", {});
    const more = el(
      "details",
      {
        class: "wm-more",
        ontoggle: () => {
          if (more.open && run) tableBody.replaceChildren(tableOf());
        },
      },
      el("summary", {}, "Table of every token"),
      tableBody,
    );
    root.append(which, text, legend, facts, verdict, numbers, plot, more);
    let run = null,
      chosen = 0,
      seen = 0,
      trials = 0,
      hits = 0,
      scored = 0,
      once = { trials: 0, hits: 0 },
      points = [],
      tokens = new Map();

    function reset() {
      chosen = 0;
      which.replaceChildren();
      which.hidden = true;
      wipe();
    }
    function wipe() {
      seen = trials = hits = scored = 0;
      once = { trials: 0, hits: 0 };
      points = [];
      tokens = new Map();
      for (const box of [text, numbers, plot, tableBody, legend]) box.replaceChildren();
      verdict.textContent = facts.textContent = "";
    }
    function rebuild() {
      wipe();
      update(run);
      if (run.selected !== null) mark(run.selected);
    }
    function update(now) {
      run = now;
      for (; seen < now.steps.length; seen++) take(now.steps[seen]);
      const first = now.steps.find((s) => s.sequence === chosen);
      if (!first) return;
      if (!legend.childElementCount) explain(first.detail);
      judge(first.detail);
      draw();
      options();
      if (more.open && now.status !== "running") tableBody.replaceChildren(tableOf());
    }
    function take(step) {
      const d = step.detail;
      if (d?.kind !== "watermark" || step.sequence !== chosen) return;
      const flips = Math.max(1, d.g_values.length);
      if (d.scored) {
        trials += flips;
        hits += hitsOf(d);
        scored++;
      }
      if (d.scored && d.fresh) {
        once.trials += flips;
        once.hits += hitsOf(d);
      }
      points.push([points.length + 1, trials ? zOf(hits, trials, d.expected) : null]);
      const kind = !d.scored ? "skip" : d.g_values.length ? "bits" : d.is_green ? "green" : "red";
      const label = !d.scored
        ? "–"
        : d.g_values.length
          ? String(hitsOf(d))
          : d.is_green
            ? "G"
            : "R";
      const node = el(
        "span",
        {
          class: `wm-tok ${kind}`,
          role: "button",
          tabindex: 0,
          "aria-label": say(step),
          onclick: () => ctx.select(step.index),
          onfocus: () => {
            facts.textContent = say(step);
          },
          onmouseenter: () => {
            facts.textContent = say(step);
          },
          onkeydown: (e) => {
            if (e.key === "Enter" || e.key === " ") {
              e.preventDefault();
              ctx.select(step.index);
            }
          },
        },
        el("span", { class: "t" }, piece(run, step.emit[0]).replace(/^·/, " ")),
        el("i", { "aria-hidden": "true" }, label),
      );
      if (kind === "bits") node.style.setProperty("--share", hitsOf(d) / d.g_values.length);
      tokens.set(step.index, node);
      text.append(node);
    }
    function say(step) {
      const d = step.detail,
        name = `“${piece(run, step.emit[0])}”: `;
      const what = d.g_values.length
        ? `${hitsOf(d)} of ${d.g_values.length} keyed bits are ones`
        : d.is_green === null
          ? "no list was chosen"
          : (d.is_green ? "green" : "red") +
            (d.green_fraction === null
              ? ""
              : `, as ${(100 * d.green_fraction).toFixed(1)} % of the tokens ${d.scheme === "selfhash" ? "tested" : "of the vocabulary"} were`) +
            (d.bias ? `; its logit was raised by ${d.bias}` : "; its logit was left alone");
      const because = d.context_ids.length
        ? `; chosen by ${d.context_ids.map((i) => `“${piece(run, i)}”`).join(" ")}`
        : "";
      return `${name + what + because}; ${d.scored ? `counted${d.fresh ? "." : " in z; not in p, as the same draw gave it before."}` : `not counted: ${d.reason}.`}`;
    }
    function explain(d) {
      legend.replaceChildren(
        ...(d.scheme === "synthid"
          ? [
              el(
                "span",
                {},
                `number: keyed bits that are ones, of ${(run.config.keys || []).length}`,
              ),
            ]
          : [
              el("span", {}, el("b", { class: "wm-tok green" }, "G"), " green"),
              el("span", {}, el("b", { class: "wm-tok red" }, "R"), " red"),
            ]),
        el("span", {}, el("b", { class: "wm-tok skip" }, "–"), " not counted"),
      );
    }
    function judge(d) {
      const threshold = run.config.z_threshold ?? 3,
        last = points[points.length - 1],
        z = last?.[1];
      const fact = (name, value) => el("span", {}, `${name} `, el("b", {}, value));
      if (z === null || z === undefined) {
        verdict.textContent = "Nothing counts yet.";
        numbers.replaceChildren();
        return;
      }
      const p = binomialTail(once.hits, once.trials, d.chance),
        distinct = zOf(once.hits, once.trials, d.expected),
        kind = z <= threshold ? "no" : distinct <= threshold ? "doubt" : "yes";
      verdict.className = `wm-verdict ${kind}`;
      verdict.textContent = {
        yes: `✓ Marked: z is above ${threshold}.`,
        no: `✗ Not shown to be marked: z is not above ${threshold}.`,
        doubt: `? Doubtful: z is above ${threshold} only because repeats are counted; every draw counted once gives ${fixed(distinct)}.`,
      }[kind];
      verdict.dataset.p = p;
      numbers.replaceChildren(
        fact("T (tokens that count)", scored),
        fact(d.g_values.length ? "ones" : "green", `${hits} of ${trials}`),
        fact(
          "share",
          `${((100 * hits) / trials).toFixed(1)} %, by chance ${(100 * d.chance).toFixed(1)} %`,
        ),
        fact("z", fixed(z)),
        ...(once.trials < trials
          ? [fact("without repeats", `${once.hits} of ${once.trials}, z ${fixed(distinct)}`)]
          : []),
        fact("p, exact one-sided", power(p)),
      );
    }
    function draw() {
      // As wide as the card, so that letters keep their size on a telephone.
      const WIDE = Math.max(260, Math.min(760, text.clientWidth || 640));
      plot.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
      const threshold = run.config.z_threshold ?? 3,
        values = points.map((p) => p[1]).filter((z) => z !== null);
      const high = Math.max(threshold + 1, ...values, 1),
        low = Math.min(-1, ...values),
        end = Math.max(10, points.length);
      const x = (n) => LEFT + (n / end) * (WIDE - LEFT - 12),
        y = (z) => 8 + ((high - z) / (high - low)) * (HIGH - FOOT - 8);
      const path = points
        .filter((p) => p[1] !== null)
        .map((p, i) => `${(i ? "L" : "M") + x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`)
        .join("");
      plot.setAttribute(
        "aria-label",
        values.length
          ? `z over the tokens, now ${fixed(values[values.length - 1])}, threshold ${threshold}`
          : "z over the tokens",
      );
      plot.replaceChildren(
        svg("line", { class: "axis", x1: LEFT, x2: WIDE - 12, y1: y(0), y2: y(0) }),
        svg("line", {
          class: "limit",
          x1: LEFT,
          x2: WIDE - 12,
          y1: y(threshold),
          y2: y(threshold),
        }),
        svg("text", { x: WIDE - 14, y: y(threshold) - 4, "text-anchor": "end" }, "threshold"),
        ...[0, threshold].map((z) =>
          svg("text", { x: LEFT - 6, y: y(z) + 4, "text-anchor": "end" }, String(z)),
        ),
        svg("path", { class: "curve", d: path || "M0 0", fill: "none" }),
        ...(values.length
          ? [
              svg("circle", {
                class: "dot",
                cx: x(points.length),
                cy: y(values[values.length - 1]),
                r: 4,
              }),
            ]
          : []),
        svg("text", { x: LEFT, y: HIGH - 6 }, "z over the tokens written"),
        svg(
          "text",
          { x: WIDE - 14, y: HIGH - 6, "text-anchor": "end" },
          `${String(points.length)} tokens`,
        ),
      );
    }
    function options() {
      const count = Math.max(...run.steps.map((s) => s.sequence)) + 1;
      if (which.childElementCount === count || count < 2) return;
      which.hidden = false;
      which.replaceChildren(
        ...Array.from({ length: count }, (_, i) =>
          el("option", { value: i, selected: i === chosen }, `Sequence ${i + 1}`),
        ),
      );
    }
    function tableOf() {
      let at = 0;
      const rows = run.steps
        .filter((s) => s.sequence === chosen && s.detail)
        .map((s) => {
          const d = s.detail,
            z = points[at++][1];
          return [
            s.index + 1,
            piece(run, s.emit[0]),
            d.g_values.length
              ? `${hitsOf(d)} of ${d.g_values.length}`
              : d.is_green === null
                ? ""
                : d.is_green
                  ? "green"
                  : "red",
            d.green_fraction === null ? "" : `${(100 * d.green_fraction).toFixed(1)} %`,
            d.bias,
            d.scored ? (d.fresh ? "yes" : "in z, not in p: repeat") : `no: ${d.reason}`,
            z === null ? "" : fixed(z),
          ];
        });
      return table(["step", "token", "colour", "green share", "bias", "counted", "z"], rows);
    }
    function mark(index) {
      for (const node of text.querySelectorAll(".sel")) node.classList.remove("sel");
      const node = tokens.get(index);
      if (node) {
        node.classList.add("sel");
        facts.textContent = node.getAttribute("aria-label");
      }
    }
    reset();
    return {
      update,
      select(_now, index) {
        mark(index);
      },
      clear: reset,
    };
  },
};
