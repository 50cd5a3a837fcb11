// Figures of a run as SVG or PNG, and the whole run as one HTML file that needs no server.
window.DPFigures = (() => {
  const NOT_FIGURES = ["status", "scrub", "family", "export"];
  const SVG = "http://www.w3.org/2000/svg";

  function figures(root) {
    return [...root.querySelectorAll(":scope > .dp-card, :scope .dp-grid > .dp-card")].filter((card) => {
      const name = [...card.classList].find((c) => c.startsWith("dp-v-")) || "";
      const body = card.lastElementChild;
      return !NOT_FIGURES.includes(name.slice(5)) && body && !body.hidden && card.offsetParent;
    });
  }
  const title = (card) => card.getAttribute("aria-label") || "figure";
  const styles = () => [...document.querySelectorAll("style")].filter((s) => s.textContent.includes("--dp-bg")).map((s) => s.textContent).join("\n");

  async function svg(card) {
    // A view that scrolls knows how to draw itself whole.
    const own = card.querySelector(".dp-own-picture"), whole = own && own.dpPicture();
    if (whole) return whole;
    const plot = card.querySelector(".js-plotly-plot");
    if (plot) {
      const plotly = await DP.plotly(), box = plot.getBoundingClientRect();
      const url = await plotly.toImage(plot, { format: "svg", width: Math.round(box.width), height: Math.round(box.height) });
      return { text: decodeURIComponent(url.slice(url.indexOf(",") + 1)), width: box.width, height: box.height };
    }
    const box = card.getBoundingClientRect(), dark = !!document.querySelector(".dark");
    const width = Math.ceil(Math.max(box.width, card.scrollWidth));
    const copy = card.cloneNode(true);
    copy.style.width = width + "px"; copy.style.boxSizing = "border-box";
    const inner = document.createElement("div"), outer = document.createElement("div");
    outer.className = dark ? "dark" : ""; inner.className = "gradio-container"; inner.style.cssText = "font-family: system-ui, sans-serif; line-height: 1.5; color: var(--dp-text); background: var(--dp-bg)";
    const stage = DP.el("div", { class: "dp-stage" }, copy);
    inner.append(stage); outer.append(DP.el("style", {}, styles()), inner);
    const height = heightOf(outer, width);
    const picture = document.createElementNS(SVG, "svg"), holder = document.createElementNS(SVG, "foreignObject");
    for (const node of [picture, holder]) { node.setAttribute("width", width); node.setAttribute("height", height); }
    picture.setAttribute("viewBox", "0 0 " + width + " " + height);
    holder.append(outer); picture.append(holder);
    return { text: new XMLSerializer().serializeToString(picture), width, height };
  }
  // The copy is laid out without the page's other styles, so its height is its own.
  function heightOf(node, width) {
    const frame = DP.el("iframe", { "aria-hidden": "true", style: { position: "absolute", left: "-9999px", width: width + "px", height: "10px", border: 0 } });
    document.body.append(frame);
    frame.contentDocument.body.style.margin = 0;
    frame.contentDocument.body.append(frame.contentDocument.importNode(node, true));
    const height = Math.ceil(frame.contentDocument.documentElement.scrollHeight);
    frame.remove();
    return height;
  }
  async function png(card) {
    const { text, width, height } = await svg(card), image = new Image(), scale = 2;
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
    await image.decode();
    const canvas = DP.el("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) }), brush = canvas.getContext("2d");
    brush.fillStyle = DP.colours().bg;
    brush.fillRect(0, 0, canvas.width, canvas.height);
    brush.drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done, bad) => canvas.toBlob((blob) => blob ? done(blob) : bad(new Error("no picture")), "image/png"));
  }

  // Text inside a script element: nothing in it may close the element.
  const safe = (text) => text.replace(/<\/(script)/gi, "<\\/$1").replace(/<!-{2}/g, "<\\!--");
  const json = (value) => JSON.stringify(value).replace(/</g, "\\u003c");
  async function page(run, visuals) {
    const source = [...document.scripts].find((s) => s.textContent.startsWith("window.DP_PLOTLY =")).textContent.split("\n{ const recorded")[0];
    const plotly = await (await fetch(window.DP_PLOTLY)).text();
    const close = "<\/script>", dark = document.querySelector(".dark") ? " class=\"dark\"" : "";
    const name = run.strategy + ", seed " + run.seed;
    const data = { trace: DP.trace(run), fields: run.fields, texts: run.texts, visuals: visuals.filter((v) => v !== "family" && v !== "export") };
    return ["<!doctype html><html lang=\"en\"" + dark + "><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>" + name + "</title>",
      "<style>" + styles() + "\nbody { margin: 0 auto; max-width: 960px; padding: 16px; background: var(--dp-bg); font-family: system-ui, sans-serif; }</style></head>",
      "<body class=\"gradio-container\"><div class=\"dp-head\"><h1>" + name + "</h1><p>A recorded run; every picture is drawn from the record in this file.</p></div><div class=\"dp-stage\"></div>",
      "<script>" + safe(plotly) + "\n" + close + "<script>" + safe(source) + "\nwindow.DP_PLOTLY = \"data:text/javascript,\";" + close,
      "<script type=\"application/json\" id=\"run\">" + json(data) + close,
      "<script>(" + open.toString() + ")();" + close + "</body></html>"].join("\n");
  }
  // Runs in the saved page: hand the record to the store as if it had just been decoded.
  function open() {
    const { trace, fields, texts, visuals } = JSON.parse(document.getElementById("run").textContent);
    const { steps, outputs, metrics, timing, notes, pieces, ...header } = trace;
    DP.mount(document.querySelector(".dp-stage"), { strategy: trace.strategy, visuals }, () => {});
    const say = (seq, message) => DP.receive(JSON.stringify({ run: "saved", seq, strategy: trace.strategy, ...message }));
    say(0, { kind: "start", link: location.href, header: { ...header, notes, metrics, timing, pieces, fields } });
    say(1, { kind: "delta", steps, pieces, texts: texts.map((text, i) => [i, 0, text]) });
    say(2, { kind: "finish", rest: { outputs, metrics, timing, notes, pieces } });
  }
  return { figures, title, svg, png, page };
})();
