import { colours } from "../shared/colours.mjs";
import { el } from "../shared/dom.mjs";
import { plotly } from "../shared/plotly.mjs";
import { visible } from "../shared/text.mjs";

const PHRASES = { 2: "log-probability per token, nats", 3: "perplexity" };
const number = (value) =>
  typeof value !== "number"
    ? (value ?? "–")
    : Number.isInteger(value)
      ? String(value)
      : Math.abs(value) >= 1000
        ? value.toPrecision(4)
        : value.toFixed(3).replace("-", "−");

function table(message) {
  // One row a figure: four columns of runs fit a telephone, fourteen of figures do not.
  const head = ["", ...message.rows.map((row) => `${row[0]} · ${row[1]}`)];
  const body = message.columns.slice(2).map((name, i) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, name),
      message.rows.map((row) => el("td", { class: "num" }, number(row[i + 2]))),
    ),
  );
  return el(
    "div",
    { class: "dp-scroll", tabindex: 0, role: "region", "aria-label": "Figures of every run" },
    el(
      "table",
      { class: "dp-table cmp-table" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          head.map((h, i) => el("th", { scope: "col", class: i ? "num" : null }, h)),
        ),
      ),
      el("tbody", {}, body),
    ),
  );
}
function words(list) {
  return visible(list.join(""));
}
function difference(diff) {
  const line = el("p", { class: "cmp-diff" });
  for (const [kind, left, right] of diff.parts) {
    if (kind === "equal") line.append(el("span", {}, words(left)));
    else {
      if (left.length) line.append(el("del", {}, words(left)));
      if (right.length) line.append(el("ins", {}, words(right)));
    }
  }
  return el("div", {}, el("h4", {}, `${diff.a} against ${diff.b}`), line);
}
async function chart(plot, figure) {
  const Plotly = await plotly(),
    c = colours(),
    shades = [c.accent, c.bad, c.good, c.violet];
  const data = figure.data.map((line, i) => ({
    ...line,
    line: { ...line.line, color: shades[Math.floor(i / 2) % 4] },
  }));
  const axis = { gridcolor: c.line, zeroline: false };
  await Plotly.react(
    plot,
    data,
    {
      margin: { l: 48, r: 8, t: 8, b: 40 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: c.text, size: 12 },
      showlegend: true,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      hovermode: "x",
      hoverlabel: { bgcolor: c.bg, font: { color: c.text } },
      xaxis: { ...figure.layout.xaxis, ...axis },
      yaxis: { ...figure.layout.yaxis, ...axis },
      yaxis2: { ...figure.layout.yaxis2, ...axis },
    },
    { displayModeBar: false, responsive: true },
  );
}

export const compareFigures = (root) => {
  const clear = () => root.replaceChildren();
  return {
    clear,
    show(message) {
      const card = (title, ...inside) =>
        el(
          "section",
          { class: "dp-card", "aria-label": title },
          el("h3", {}, title),
          inside.flat(),
        );
      const plot = el("div", {
        class: "dp-plot cmp-plot",
        role: "img",
        "aria-label":
          "Surprise and entropy of every text under the base model, in bits, over the new tokens",
      });
      root.replaceChildren(
        card(
          "Figures",
          table(message),
          el(
            "p",
            { class: "dp-note" },
            `${PHRASES[2].split(",")[0]} and ${PHRASES[3]} are those of ${message.base} reading each text token by token (teacher-forced), whoever wrote it. rep-n is the share of n-grams that repeat an earlier one; distinct-n the share of different ones. Seconds are decoding alone, without waiting. A text that is more probable is not therefore better.`,
          ),
        ),
        message.diff.length
          ? card(
              "Token differences",
              el(
                "div",
                { class: "dp-legend" },
                el("del", {}, "only in the first"),
                el("ins", {}, "only in the other"),
              ),
              message.diff.map(difference),
            )
          : "",
        message.figure.data.length ? card(`Surprise and entropy under ${message.base}`, plot) : "",
      );
      if (message.figure.data.length) chart(plot, message.figure);
    },
  };
};
