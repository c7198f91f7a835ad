// One job, live: parts of the page, charts, log, and the buttons.

import { call, fields, notify } from "./app.js";
import { drawAll } from "./charts.js";
import { follow, place } from "./live.js";

const page = document.querySelector("[data-job]");
const id = page.dataset.job;
const api = `/api/v1/jobs/${encodeURIComponent(id)}`;
const find = (selector) => page.querySelector(selector);

// Buttons and sections that come and go with the state.
const WHEN = {
  planned: (s) => s.state === "planned" && !s.confirmed,
  unconfirmed: (s) => s.state === "searching" && !s.confirmed && s.started && !s.stopping,
  unstarted: (s) => s.state === "searching" && !s.started,
  active: (s) => ["searching", "planned", "training"].includes(s.state) && s.started && !s.stopping,
  resting: (s) => ["paused", "stopped", "failed"].includes(s.state),
  unfinished: (s) => s.state !== "succeeded",
  model: (s) => s.model,
  training: (s) => s.state === "training" || s.trained,
  live: (s) => s.busy,
};

function setState(state) {
  for (const piece of page.querySelectorAll("[data-when]")) piece.hidden = !WHEN[piece.dataset.when](state);
}

// Charts are fetched when what they show has changed, and not more often than every two seconds.
const known = { search: "", training: "" };
const wanted = { search: "", training: "" };
const busy = { search: false, training: false };

async function refresh(which) {
  if (busy[which] || known[which] === wanted[which] || document.hidden) return;
  busy[which] = true;
  try {
    const data = await call("GET", `/jobs/${encodeURIComponent(id)}/charts/${which}`);
    known[which] = data.version;
    (which === "search" ? showSearch : showTraining)(data);
  } catch (fault) {
    console.warn(fault.message);
  }
  setTimeout(() => { busy[which] = false; refresh(which); }, 2000);
}

let beliefs = [];
const slider = find("[data-beliefs] input");

function showSearch(data) {
  find('[data-charts="search"]').hidden = !data.charts.length;
  drawAll(find('[data-place="charts"]'), data.charts);
  const newest = Number(slider.value) === Number(slider.max || 0) || !beliefs.length;
  beliefs = data.beliefs;
  const frames = beliefs.length ? beliefs[0].frames.length : 0;
  find("[data-beliefs]").hidden = !frames;
  slider.max = Math.max(0, frames - 1);
  slider.dataset.first = data.trials - frames + 1;
  if (newest) slider.value = slider.max;
  slider.parentElement.hidden = frames < 2;
  showBeliefs();
  const words = find(".words");
  words.hidden = !data.words;
  find('[data-place="words"]').innerHTML = data.words; // drawn by the server, which escapes every text
}

function showBeliefs() {
  find("[data-beliefs] b").textContent = Number(slider.dataset.first || 0) + Number(slider.value);
  drawAll(find('[data-place="beliefs"]'), beliefs, Number(slider.value));
}
slider.addEventListener("input", showBeliefs);

let trained = false;
function showTraining(data) {
  drawAll(find('[data-place="training"]'), data.charts);
  find('[data-none="training"]').hidden = data.charts.length > 0;
  trained = data.charts.length > 0;
  setState({ ...state, trained, busy: Boolean(now) });
}

// What the machines use, as long as one looks.
const seen = [];
const began = Date.now();
let now = null;

function showUse() {
  if (now) seen.push({ at: (Date.now() - began) / 1000, ...now });
  if (seen.length > 600) seen.splice(0, seen.length - 600);
  const line = (name, value, color) => ({ mode: "lines", name, x: seen.map((s) => s.at), y: seen.map(value), line: { color, width: 2 } });
  const chart = (title, unit, traces) => ({ title, frames: [traces], layout: { xaxis: { title: { text: "s since the page was opened" } }, yaxis: { title: { text: unit }, rangemode: "tozero" } } });
  const of = (key) => {
    const count = Math.max(0, ...seen.map((s) => s.nodes.length));
    const nodes = [...Array(count).keys()].map((rank) => line(`node ${rank}`, (s) => s.nodes[rank]?.[key] ?? NaN, `var:c${1 + rank % 8}`));
    return nodes.some((trace) => trace.y.some(Number.isFinite)) ? nodes : [line("all nodes", (s) => s[key], "var:c1")];
  };
  const charts = [chart("Throughput", "samples/s", [line("samples/s", (s) => s.rate, "var:c3")]), chart("CPU", "%", of("cpu"))];
  if (seen.some((s) => s.gpu > 0)) charts.push(chart("GPU", "%", of("gpu")));
  charts.push(chart("Network, received", "Mbit/s", of("network")));
  drawAll(find('[data-place="usage"]'), seen.length < 2 ? [] : charts);
}

// The log of a task, by its own stream.
const log = find("[data-log]"), tasks = find("[data-task]"), node = find("[data-node]"), tail = find("[data-tail]");
const MOST_LINES = 2000;
let stream = null, lines = [], shown = "";

function setTasks(list) {
  const text = JSON.stringify(list.map((task) => task.id));
  if (text === tasks.dataset.known) return;
  const newest = !tasks.value || tasks.selectedIndex === 0;
  tasks.dataset.known = text;
  const kept = tasks.value;
  tasks.replaceChildren(...list.map((task) => new Option(task.name, task.id)));
  tasks.value = newest || !list.some((task) => task.id === kept) ? list[0]?.id || "" : kept;
  readLog();
}

function readLog() {
  const place = `${tasks.value}/${node.value}`;
  if (!tasks.value || (shown === place && stream)) return;
  stream?.close();
  [shown, lines] = [place, []];
  log.textContent = "Nothing is written yet.";
  stream = new EventSource(`${api}/logs/stream?task=${encodeURIComponent(tasks.value)}&node=${Number(node.value) || 0}`);
  stream.addEventListener("lines", (event) => addLines(JSON.parse(event.data).lines));
  stream.addEventListener("over", () => { stream?.close(); if (!lines.length) log.textContent = "The log is empty."; });
  stream.addEventListener("error", () => { if (stream?.readyState === EventSource.CLOSED && !lines.length) log.textContent = "There is no such log."; });
}

function addLines(fresh) {
  lines = lines.concat(fresh).slice(-MOST_LINES);
  log.classList.remove("quiet");
  log.textContent = lines.join("\n");
  if (tail.checked) log.scrollTop = log.scrollHeight;
}
tasks.addEventListener("change", readLog);
node.addEventListener("change", readLog);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { stream?.close(); stream = null; shown = ""; } else readLog();
});
window.addEventListener("pagehide", () => stream?.close());

// Steering.
for (const button of page.querySelectorAll("[data-do]")) {
  button.addEventListener("click", async () => {
    const lost = button.dataset.do === "stop" && state.loses;
    if (lost && !window.confirm(`${lost}\n\nStop it?`)) return;
    button.disabled = true;
    notify("");
    try {
      await call("POST", `${api}/${button.dataset.do}`, button.dataset.do === "resume" ? {} : undefined);
    } catch (fault) {
      notify(fault.words || fault.message);
    }
    button.disabled = false;
  });
}
const dialog = document.getElementById("limits");
find("[data-open]")?.addEventListener("click", () => dialog.showModal());
dialog?.querySelector("form").addEventListener("submit", async (event) => {
  if (event.submitter?.value !== "save") return;
  event.preventDefault();
  const error = dialog.querySelector("[data-error]");
  error.textContent = "";
  try {
    await call("POST", `${api}/resume`, fields(event.target));
    dialog.close();
  } catch (fault) {
    error.textContent = fault.words || fault.message;
  }
});

let state = JSON.parse(page.dataset.state);
setState(state);
const sign = find("[data-live-sign]");
follow(`/live/jobs/${encodeURIComponent(id)}`, (news) => {
  place(news.parts);
  state = news.state;
  now = news.now;
  setState({ ...state, trained, busy: Boolean(now) });
  setTasks(news.tasks);
  Object.assign(wanted, news.versions);
  refresh("search");
  refresh("training");
  showUse();
}, (on) => {
  sign.classList.toggle("on", on);
  sign.textContent = on ? "live" : "waiting for the server";
});
