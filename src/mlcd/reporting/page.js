// Draws the charts that the page carries as JSON, in the colours of the reader's theme.
(function () {
  "use strict";
  const groups = {};
  const steps = {};

  function colour(name) {
    const [key, opacity] = name.slice(4).split("/");
    const hex = getComputedStyle(document.documentElement).getPropertyValue("--" + key).trim();
    if (!opacity) return hex;
    const parts = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return `rgba(${parts.join(",")},${opacity})`;
  }

  function themed(value) {
    if (typeof value === "string") return value.startsWith("var:") ? colour(value) : value;
    if (Array.isArray(value)) return value.map(themed);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, themed(inner)]));
    }
    return value;
  }

  function axis(given) {
    const grid = colour("var:grid");
    return Object.assign({ automargin: true, gridcolor: grid, linecolor: grid, zeroline: false }, given);
  }

  function layout(given, legend) {
    const base = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("var:ink"), size: 12, family: getComputedStyle(document.body).fontFamily },
      margin: { l: 8, r: 12, t: 12, b: 8 },
      hovermode: "closest",
      hoverlabel: { bgcolor: colour("var:card"), bordercolor: colour("var:grid"), font: { color: colour("var:ink") } },
      showlegend: legend,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    };
    const axes = Object.fromEntries(Object.entries(given).map(([name, one]) => [name, axis(one)]));
    return Object.assign(base, axes);
  }

  function draw(box) {
    const figure = groups[box.dataset.chart][Number(box.dataset.number)];
    const last = figure.frames.length - 1;
    const frame = figure.frames[Math.min(last, steps[box.dataset.chart] ?? last)];
    const named = frame.filter((trace) => trace.showlegend !== false).length;
    const legend = named > 1 && box.dataset.chart !== "beliefs";
    Plotly.react(box, themed(frame), layout(themed(figure.layout), legend), { displayModeBar: false, responsive: true });
  }

  function drawAll(group) {
    document.querySelectorAll(group ? `.chart[data-chart="${group}"]` : ".chart").forEach(draw);
  }

  document.querySelectorAll('script[id^="charts-"]').forEach((script) => {
    groups[script.id.slice("charts-".length)] = JSON.parse(script.textContent);
  });
  document.querySelectorAll("input[data-steps]").forEach((slider) => {
    slider.addEventListener("input", () => {
      steps[slider.dataset.steps] = Number(slider.value);
      slider.parentElement.querySelector("b").textContent = Number(slider.dataset.first) + Number(slider.value);
      drawAll(slider.dataset.steps);
    });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
  drawAll();
})();
