// A new job: upload, check, start. Errors are shown at the step that they belong to.

import { call, Fault, notify } from "./app.js";
import { fill, toJob, variables } from "./jobform.js";
import { chosen, tar } from "./tar.js";

const form = document.getElementById("new");
const field = (name) => form.elements[name];
let code = null; // the id of the upload with the program
let wheel = false; // whether that is a Python package
let dataUpload = null; // 'upload:ID/path'
let pending = Promise.resolve();

// What is shown depends on what was chosen.
function arrange() {
  for (const [name, key] of [["source", "source"], ["data", "data"], ["how", "how"]]) {
    for (const piece of form.querySelectorAll(`[data-${key}]`)) piece.hidden = piece.dataset[key] !== field(name).value;
  }
  form.querySelector("[data-epochs]").hidden = field("work_kind").value !== "epochs";
  form.querySelector("[data-hourly]").hidden = field("how").value === "hand";
}
form.addEventListener("change", arrange);

// Errors
function complain(fault) {
  const words = fault.words || [fault.message, fault.hint].filter(Boolean).join(" ");
  const key = keyOf(fault.message);
  const place = [...form.querySelectorAll("[data-error-of]")].find((each) => each.dataset.errorOf.split(" ").includes(key)) || form.querySelector('[data-error-of="all"]');
  place.textContent = words;
  const step = place.closest("fieldset");
  document.querySelector(`.steps a[href="#${step.id}"]`).parentElement.classList.add("wrong");
  const wrong = field(key);
  if (wrong instanceof Element) { wrong.setAttribute("aria-invalid", "true"); wrong.focus(); }
  place.scrollIntoView({ block: "center" });
}

// The key of the job file that a message is about: what it begins with, or what it puts into quotation marks.
function keyOf(message) {
  const named = form.querySelectorAll("[data-error-of]");
  const keys = [...named].flatMap((each) => each.dataset.errorOf.split(" "));
  const said = message.toLowerCase();
  if (said.includes("unknown key") || said.includes("no key")) return "more";
  return keys.find((key) => new RegExp(`(^|[\\n\\s'])${key}('|:|\\.)`).test(said)) || (said.includes("budget") ? "budget" : "all");
}

function clear() {
  notify("");
  for (const place of form.querySelectorAll("[data-error-of]")) place.textContent = "";
  for (const wrong of form.querySelectorAll("[aria-invalid]")) wrong.removeAttribute("aria-invalid");
  for (const step of document.querySelectorAll(".steps .wrong")) step.classList.remove("wrong");
}

// Uploads
async function upload(name, content) {
  if (content.size > Number(form.dataset.uploadBytes)) throw new Fault({ message: `code: ${name} is larger than this server takes.` });
  return call("POST", `/api/v1/uploads?name=${encodeURIComponent(name)}`, content, { raw: true });
}

function told(sent, { files, bytes }) {
  const size = bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : bytes >= 1e3 ? `${(bytes / 1e3).toFixed(1)} kB` : `${bytes} bytes`;
  return `${sent.name}: ${files} file${files === 1 ? "" : "s"}, ${size}`;
}

function takeCode({ upload: sent, contents }) {
  code = sent.id;
  form.querySelector("[data-uploaded]").textContent = told(sent, contents);
  document.getElementById("scripts").replaceChildren(...contents.scripts.map((script) => new Option(script)));
  wheel = /\.whl$/i.test(sent.name);
  const top = !wheel && contents.folders.length === 1 && contents.scripts.length && contents.scripts.every((script) => script.startsWith(`${contents.folders[0]}/`)) ? contents.folders[0] : "";
  const scripts = contents.scripts.map((script) => (top ? script.slice(top.length + 1) : script));
  field("workdir").value = top;
  if (!scripts.includes(field("script").value)) field("script").value = mainOf(scripts);
  if (!field("name").value) field("name").value = wheel ? sent.name.split("-")[0] : sent.name.replace(/(\.(zip|tar|tgz|py|gz|bz2|xz))+$/i, "").slice(0, 60);
  command();
}

// The script that a program most likely begins with; those nearest to the top come first.
function mainOf(scripts) {
  for (const name of ["train.py", "main.py", "__main__.py"]) {
    const found = scripts.find((script) => script === name || script.endsWith(`/${name}`));
    if (found) return found;
  }
  return scripts.find((script) => !script.endsWith("__init__.py")) || "";
}

function working(place, work) {
  clear();
  const spot = form.querySelector(place);
  pending = (async () => {
    spot.textContent = "Sending …";
    try {
      await work();
    } catch (fault) {
      spot.textContent = "";
      const key = place === "[data-uploaded]" ? "code" : "data";
      const named = new Fault({ message: fault.message.startsWith(`${key}: `) ? fault.message : `${key}: ${fault.message}`, hint: fault.hint });
      complain(named);
      throw named;
    }
  })();
  pending.catch(() => {}); // told above; starting without it is refused
}

field("archive").addEventListener("change", () => {
  const [file] = field("archive").files;
  code = null;
  if (file) working("[data-uploaded]", async () => takeCode(await upload(file.name, file)));
});
field("folder").addEventListener("change", () => {
  const files = chosen(field("folder").files);
  code = null;
  if (files.length) working("[data-uploaded]", async () => takeCode(await upload(`${files[0].webkitRelativePath.split("/")[0]}.tar`, await tar(files))));
});
field("earlier").addEventListener("change", () => {
  code = null;
  if (field("earlier").value) working("[data-uploaded]", async () => takeCode(await call("GET", `/api/v1/uploads/${field("earlier").value}`)));
});
field("data_file").addEventListener("change", () => {
  const [file] = field("data_file").files;
  dataUpload = null;
  if (file) working("[data-data-uploaded]", async () => {
    const { upload: sent, contents } = await upload(file.name, file);
    const archive = /\.(zip|whl|tar|tgz|gz|bz2|xz)$/i.test(file.name) && !(contents.files === 1 && !contents.folders.length && contents.scripts.length === 0 && /\.gz$/i.test(file.name) && !/\.tar\.gz$/i.test(file.name));
    dataUpload = `upload:${sent.id}${archive ? "" : `/${sent.name}`}`;
    if (!archive && field("data_path").value === "data") field("data_path").value = `data/${sent.name}`;
    form.querySelector("[data-data-uploaded]").textContent = told(sent, contents);
  });
});

// Modules of a wheel import each other by the name of their package.
function starts(script) {
  if (!wheel || !script.includes("/")) return script;
  return `-m ${script.replace(/(\/__main__)?\.py$/, "").replaceAll("/", ".")}`;
}

// The command is made of script and parameters until somebody writes it.
let written = false;
function command() {
  if (written && field("run").value) return;
  const script = field("script").value.trim();
  field("run").value = script ? ["python", starts(script), field("parameters").value.trim()].filter(Boolean).join(" ") : "";
}
for (const name of ["script", "parameters"]) field(name).addEventListener("input", () => { written = false; command(); });
field("run").addEventListener("input", () => { written = true; });

// Examples and job files
function take(job) {
  const rest = fill(form, job);
  field("more").value = Object.keys(rest).length ? JSON.stringify(rest, null, 2) : "";
  field("more").closest("details").open = Object.keys(rest).length > 0;
  written = true;
  arrange();
}
for (const button of document.querySelectorAll("[data-example]")) {
  button.addEventListener("click", () => {
    field("source").value = "file";
    working("[data-uploaded]", async () => {
      const found = await call("POST", `/new/examples/${button.dataset.example}`);
      take(found.job);
      takeCode(found);
      if (!found.job.workdir) field("workdir").value = "";
    });
  });
}
document.querySelector("[data-jobfile]").addEventListener("change", async (event) => {
  clear();
  try {
    take((await call("POST", "/new/read", { text: await event.target.files[0].text() })).job);
  } catch (fault) {
    complain({ message: `more: ${fault.message}`, hint: fault.hint });
  }
  event.target.value = "";
});

// Check and start
async function submission() {
  await pending;
  const { job: more } = field("more").value.trim() ? await call("POST", "/new/read", { text: field("more").value }).catch((fault) => { throw new Fault({ message: `more: ${fault.message}`, hint: fault.hint }); }) : { job: {} };
  if (!code && field("source").value !== "none") throw new Fault({ message: "code: there is no program yet.", hint: "Choose an archive, a folder or an example." });
  const sent = { job: toJob(form, { dataUpload, more }), cloud: field("cloud").value, cloud_options: variables("cloud_options", field("cloud_options").value) };
  return code && field("source").value !== "none" ? { ...sent, code } : sent;
}

const usd = (amount) => (amount === 0 ? "$0" : amount >= 1 ? `$${amount.toFixed(2)}` : `$${Number(amount.toPrecision(3))}`);
const minutes = (seconds) => (seconds < 90 ? `${seconds.toFixed(0)} s` : `${(seconds / 60).toFixed(1)} min`);

async function check() {
  const sent = await submission();
  const found = await call("POST", "/api/v1/check", sent);
  showCheck(found);
  const cheapest = Math.min(...found.probe_usd), budget = found.job.budget_usd;
  if (budget !== null && found.space.length && budget < cheapest) {
    throw new Fault({ message: `budget: ${usd(budget)} is too small: the cheapest probe alone costs about ${usd(cheapest)}.`, hint: "Raise the budget." });
  }
  return sent;
}

function range(rows) {
  const [low, high] = [usd(rows[0]?.usd || 0), usd(rows.at(-1)?.usd || 0)];
  return low === high ? low : `${low} to ${high}`;
}

// What is rented, in words, and what an hour of it costs: workers, and parameter servers of another type beside them.
function rented({ offer, nodes, servers, server_offer: other }) {
  const workers = other ? nodes - servers : nodes, usd = offer.usd_per_hour * workers;
  const words = `${workers} × ${offer.instance.name}`;
  if (other) return [`${words} + ${servers} × ${other.instance.name} serving`, usd + other.usd_per_hour * servers];
  return [servers ? `${words} (${servers} serving)` : words, usd];
}

function showCheck(found) {
  const place = form.querySelector("[data-checked]"), most = 12;
  const rows = found.space.map((deployment, i) => ({ deployment, seconds: found.probe_seconds[i], usd: found.probe_usd[i] })).sort((a, b) => a.usd - b.usd);
  const words = document.createElement("p");
  words.append(`${rows.length} deployment${rows.length === 1 ? "" : "s"} may be tried; one probe costs ${range(rows)}. ${rows.length > 1 ? "The strategy tries as few as it needs." : ""}`);
  const table = document.createElement("table");
  table.createTHead().insertRow().append(...["Deployment", "$ an hour", "A probe takes", "and costs"].map((name, i) => { const head = document.createElement("th"); head.textContent = name; if (i) head.className = "number"; return head; }));
  const body = table.createTBody();
  for (const { deployment, seconds, usd: cost } of rows.slice(0, most)) {
    const row = body.insertRow(), [machines, hourly] = rented(deployment);
    [`${machines}${deployment.batch_size ? `, batch ${deployment.batch_size}` : ""}`, usd(hourly), minutes(seconds), usd(cost)].forEach((text, i) => { const cell = row.insertCell(); cell.textContent = text; if (i) cell.className = "number"; });
  }
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.append(table);
  const notices = found.notices.map((notice) => { const line = document.createElement("p"); line.className = "warn"; line.textContent = notice; return line; });
  place.replaceChildren(words, ...notices, scroll);
  if (rows.length > most) place.append(`and ${rows.length - most} more`);
}

async function guarded(button, work) {
  clear();
  button.disabled = true;
  try {
    await work();
  } catch (fault) {
    complain(fault);
  }
  button.disabled = false;
}
const checking = form.querySelector("[data-check]"), starting = form.querySelector("[data-start]");
checking.addEventListener("click", () => guarded(checking, check));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(starting, async () => {
    const sent = await check();
    const { id } = await call("POST", "/api/v1/jobs", { ...sent, start: true, confirm: field("confirm").checked });
    location.assign(`/jobs/${encodeURIComponent(id)}`);
  });
});
arrange();
if (location.hash.startsWith("#example-")) document.querySelector(location.hash)?.click();
