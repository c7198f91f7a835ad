// Charts as SVG, from the data that the report's charts are made of: a small part of Plotly's words.
// A figure: {title, frames: [[trace…]…], layout: {xaxis, yaxis, yaxis2}}.

const SPACE = "http://www.w3.org/2000/svg";
const ROOM = { right: 14, top: 10, bottom: 38 };
const HEIGHT = 270;

// Draws the figures into a place, over what is there; step chooses the frame.
export function drawAll(place, figures, step = null) {
  while (place.children.length > figures.length) place.lastElementChild.remove();
  figures.forEach((figure, i) => {
    let box = place.children[i];
    if (!box) { box = newBox(); place.append(box); watch.observe(box); }
    box.shown = { figure, step };
    draw(box);
  });
}

const watch = new ResizeObserver((entries) => {
  for (const { target } of entries) if (target.shown && target.width !== target.clientWidth) draw(target);
});

function newBox() {
  const box = document.createElement("figure");
  box.append(document.createElement("figcaption"), svg("svg", { role: "img" }), document.createElement("ul"));
  box.lastElementChild.className = "legend";
  box.addEventListener("pointermove", (event) => hover(box, event));
  box.addEventListener("pointerleave", () => box.querySelector(".tip")?.remove());
  return box;
}

function draw(box) {
  const { figure, step } = box.shown;
  const frames = figure.frames;
  const traces = frames[Math.max(0, Math.min(frames.length - 1, step ?? frames.length - 1))] || [];
  const width = Math.max(200, box.clientWidth);
  const first = traces.filter((trace) => trace.yaxis !== "y2");
  const second = traces.filter((trace) => trace.yaxis === "y2");
  const letters = (axis, of) => 6.7 * Math.max(2, ...scale(axis, values(of, "y"), HEIGHT - ROOM.bottom, ROOM.top, 5).ticks.map(({ text }) => text.length));
  const right = figure.layout.yaxis2 ? 10 + letters(figure.layout.yaxis2, second) : ROOM.right;
  const plot = { x0: 32 + letters(figure.layout.yaxis, first), x1: width - right, y0: HEIGHT - ROOM.bottom, y1: ROOM.top };
  const x = scale(figure.layout.xaxis, values(traces, "x"), plot.x0, plot.x1, 6);
  const y = scale(figure.layout.yaxis, values(first, "y"), plot.y0, plot.y1, 5);
  const y2 = figure.layout.yaxis2 && scale(figure.layout.yaxis2, values(second, "y"), plot.y0, plot.y1, 5);
  const picture = box.querySelector(":scope > svg");
  box.width = box.clientWidth;
  picture.replaceChildren();
  picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  box.querySelector("figcaption").textContent = plain(figure.title);
  axes(picture, figure.layout, plot, x, y, y2);
  const inside = svg("g");
  picture.append(inside);
  box.points = [];
  let below = null;
  for (const trace of traces) {
    const up = trace.yaxis === "y2" ? y2 : y;
    const points = trace.x.map((value, i) => spot(x(value), up(trace.y[i])));
    if (trace.fill === "tonexty" && below) area(inside, below, points, trace.fillcolor, plot);
    const mode = trace.mode || "lines";
    if (mode.includes("lines") && trace.line.width > 0) path(inside, points, trace.line);
    if (mode.includes("markers")) points.forEach((p) => p && mark(inside, p, trace.marker || { color: trace.line.color, size: 7 }));
    if (mode.includes("text")) points.forEach((p, i) => p && trace.text?.[i] && word(inside, p, plain(trace.text[i]), trace.textposition, plot));
    if (trace.hoverinfo !== "skip") points.forEach((p, i) => p && box.points.push({ p, words: told(trace, i, figure.layout) }));
    below = points;
  }
  picture.setAttribute("aria-label", `${plain(figure.title)}: ${traces.filter((t) => t.name && t.showlegend !== false).map((t) => plain(t.name)).join(", ")}`);
  legend(box.lastElementChild.className === "legend" ? box.lastElementChild : box.querySelector(".legend"), traces);
}

function values(traces, key) {
  return traces.flatMap((trace) => trace[key]).filter((value) => Number.isFinite(value));
}

// A function from values to pixels, with its ticks.
function scale(axis, known, from, to, wanted) {
  const log = axis.type === "log";
  let low = Math.min(...known), high = Math.max(...known);
  if (!known.length) [low, high] = [0, 1];
  if (axis.range) [low, high] = axis.range;
  if (log) {
    [low, high] = [Math.log10(low), Math.log10(high)];
  } else if (axis.rangemode === "tozero" || (low > 0 && low < 0.35 * high && !axis.range && !axis.dtick)) {
    low = Math.min(0, low);
  }
  if (low === 0 && high === 0) high = 1;
  if (low === high) { const pad = log ? 0.3 : Math.abs(low) * 0.1 || 1; low -= pad; high += pad; }
  else if (!axis.range) { const pad = 0.05 * (high - low); high += pad; if (log || low !== 0) low -= pad; }
  const at = (value) => {
    if (!Number.isFinite(value) || (log && value <= 0)) return null;
    return from + (((log ? Math.log10(value) : value) - low) / (high - low)) * (to - from);
  };
  at.ticks = ticks(axis, low, high, log, wanted, Math.abs(to - from));
  return at;
}

function ticks(axis, low, high, log, wanted, room) {
  const prefix = axis.tickprefix || "";
  if (log) {
    const inside = (axis.tickvals || []).map((value, i) => ({ value, text: axis.ticktext[i] })).filter(({ value }) => Math.log10(value) >= low && Math.log10(value) <= high);
    const most = Math.max(2, Math.floor(room / 48));
    return inside.length <= most ? inside : inside.filter((_, i) => i % Math.ceil(inside.length / most) === 0);
  }
  let step = axis.dtick || nice((high - low) / wanted);
  while ((high - low) / step > wanted * 2.5) step *= 2;
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) found.push({ value, text: prefix + short(value, step) });
  return found;
}

function nice(step) {
  const power = 10 ** Math.floor(Math.log10(step));
  return [1, 2, 5, 10].find((digit) => digit * power >= step) * power;
}

function short(value, step) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${+(value / 1e9).toPrecision(4)}G`;
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(4)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(4)}k`;
  const digits = Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9)));
  return value.toFixed(digits);
}

function axes(picture, layout, plot, x, y, y2) {
  for (const { value, text } of y.ticks) {
    picture.append(svg("line", { class: "axis", x1: plot.x0, x2: plot.x1, y1: y(value), y2: y(value) }), label(plot.x0 - 6, y(value) + 4, text, "end"));
  }
  for (const { value, text } of x.ticks) {
    picture.append(svg("line", { class: "axis", x1: x(value), x2: x(value), y1: plot.y0, y2: plot.y1 }), label(x(value), plot.y0 + 15, text, "middle"));
  }
  for (const { value, text } of y2?.ticks || []) picture.append(label(plot.x1 + 5, y2(value) + 4, text, "start"));
  picture.append(label((plot.x0 + plot.x1) / 2, HEIGHT - 6, plain(layout.xaxis.title?.text || ""), "middle"));
  const up = label(0, 0, plain(layout.yaxis.title?.text || ""), "middle");
  up.setAttribute("transform", `translate(11 ${(plot.y0 + plot.y1) / 2}) rotate(-90)`);
  picture.append(up);
}

function path(place, points, line) {
  let pen = "", before = null;
  for (const p of points) {
    if (p) pen += before ? (line.shape === "hv" ? `H${p.x}V${p.y}` : `L${p.x} ${p.y}`) : `M${p.x} ${p.y}`;
    before = p;
  }
  const drawn = svg("path", { d: pen, fill: "none", "stroke-width": line.width || 2, "stroke-linejoin": "round" });
  if (line.dash === "dash") drawn.setAttribute("stroke-dasharray", "7 5");
  if (line.dash === "dot") drawn.setAttribute("stroke-dasharray", "2 4");
  drawn.style.stroke = colour(line.color);
  place.append(drawn);
}

function area(place, below, above, fill, plot) {
  const edge = [...above.filter(Boolean), ...below.filter(Boolean).reverse()];
  if (edge.length < 3) return;
  const [name, share] = fill.split("/");
  const drawn = svg("path", { d: `M${edge.map((p) => `${p.x} ${Math.min(plot.y0, Math.max(plot.y1, p.y))}`).join("L")}Z`, "fill-opacity": share || 1 });
  drawn.style.fill = colour(name);
  place.append(drawn);
}

const SHAPES = {
  circle: (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`,
  square: (r) => `M${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  diamond: (r) => `M0 ${-1.2 * r}L${1.2 * r} 0L0 ${1.2 * r}L${-1.2 * r} 0z`,
  "triangle-up": (r) => `M0 ${-1.1 * r}L${r} ${0.8 * r}H${-r}z`,
  x: (r) => `M${-r} ${-r}L${r} ${r}M${r} ${-r}L${-r} ${r}`,
  star: (r) => "M" + [...Array(10).keys()].map((i) => { const a = (Math.PI / 5) * i - Math.PI / 2, far = i % 2 ? 0.45 * r : 1.1 * r; return `${(far * Math.cos(a)).toFixed(2)} ${(far * Math.sin(a)).toFixed(2)}`; }).join("L") + "z",
};

function mark(place, p, marker) {
  const [shape, open] = marker.symbol?.endsWith("-open") ? [marker.symbol.slice(0, -5), true] : [marker.symbol || "circle", marker.symbol === "x"];
  const drawn = svg("path", { d: (SHAPES[shape] || SHAPES.circle)((marker.size || 9) / 2), transform: `translate(${p.x} ${p.y})`, fill: "none", "stroke-width": shape === "x" ? 2.5 : 1.6 });
  if (open) drawn.style.stroke = colour(marker.color); else drawn.style.fill = colour(marker.color);
  place.append(drawn);
}

function word(place, p, text, position = "top center", plot) {
  const side = position.includes("right") ? "start" : position.includes("left") ? "end" : "middle";
  const near = p.x > plot.x1 - 40 && side === "start" ? "end" : side;
  place.append(label(p.x + (near === "end" ? -5 : near === "start" ? 5 : 0), p.y + (position.startsWith("top") ? -7 : 4), text, near));
}

function legend(list, traces) {
  const named = traces.filter((trace) => trace.name && trace.showlegend !== false && trace.x.length);
  list.replaceChildren(...(named.length < 2 ? [] : named).map((trace) => {
    const item = document.createElement("li"), key = svg("svg", { viewBox: "0 0 18 12", "aria-hidden": "true" });
    if ((trace.mode || "lines").includes("lines")) path(key, [spot(0, 6), spot(18, 6)], trace.line);
    if (trace.marker) mark(key, spot(9, 6), { ...trace.marker, size: 9 });
    item.append(key, plain(trace.name));
    return item;
  }));
}

function hover(box, event) {
  const picture = box.querySelector(":scope > svg"), frame = picture.getBoundingClientRect(), zoom = frame.width / Math.max(200, box.width);
  const at = { x: (event.clientX - frame.left) / zoom, y: (event.clientY - frame.top) / zoom };
  let best = null, near = 30 ** 2;
  for (const point of box.points || []) {
    const far = (point.p.x - at.x) ** 2 + (point.p.y - at.y) ** 2;
    if (far < near) [best, near] = [point, far];
  }
  let tip = box.querySelector(".tip");
  if (!best) { tip?.remove(); return; }
  if (!tip) { tip = document.createElement("div"); tip.className = "tip"; box.append(tip); }
  tip.textContent = best.words;
  tip.style.top = `${Math.max(0, picture.offsetTop + best.p.y * zoom - 40)}px`;
  tip.style.left = `${Math.max(0, Math.min(best.p.x * zoom + 8, box.clientWidth - tip.offsetWidth))}px`;
}

function told(trace, i, layout) {
  const title = (axis) => plain(axis?.title?.text || "");
  const up = trace.yaxis === "y2" ? layout.yaxis2 : layout.yaxis;
  const name = trace.text?.[i] && trace.text[i].length > 3 ? plain(trace.text[i]) : plain(trace.name || "");
  return `${name}\n${+trace.x[i].toPrecision(4)} ${title(layout.xaxis)}, ${up.tickprefix || ""}${+trace.y[i].toPrecision(4)} ${title(up)}`;
}

const colour = (name) => (name.startsWith("var:") ? `var(--${name.slice(4)})` : name);
const spot = (x, y) => (x === null || y === null ? null : { x: +x.toFixed(1), y: +y.toFixed(1) });
const plain = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

function label(x, y, text, anchor) {
  const made = svg("text", { x, y, "text-anchor": anchor });
  made.textContent = text;
  return made;
}

function svg(name, attributes = {}) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
