// The form of a new job ↔ the keys of a job file.

// The keys that the form says; `more` are those that it has no field for.
export function toJob(form, { dataUpload, more }) {
  const value = (name) => form.elements[name].value.trim();
  const number = (name) => (value(name) === "" ? undefined : Number(value(name)));
  const job = {
    name: value("name") || undefined,
    run: value("run") || undefined,
    setup: value("setup") || undefined,
    workdir: value("workdir") || undefined,
    platform: value("platform") || undefined,
    work: work(value, number),
    batch_size: numbers(value("batch_size")),
    outputs: list(value("outputs")),
    goal: value("goal") || undefined,
    budget: number("budget"),
    deadline: value("deadline") || undefined,
    secrets: list(value("secrets")),
    cloud: value("cloud"),
    envs: variables("envs", value("envs")),
  };
  if (value("checkpoint")) job.checkpoint = { path: value("checkpoint") };
  machines(job, value, number, form.elements.strategy.selectedOptions[0]);
  data(job, value, form, dataUpload);
  return merged(clean(job), more);
}

function work(value, number) {
  const amount = number("work_amount");
  if (amount === undefined) return undefined;
  const found = { [value("work_kind")]: amount, dataset_size: number("dataset_size") };
  if (value("until_metric")) found.until = { metric: value("until_metric"), value: number("until_value") };
  return found;
}

function machines(job, value, number, option) {
  if (value("how") === "hand") {
    if (!value("instance")) throw new Error("resources: no instance type is chosen.");
    job.num_nodes = number("nodes") || 1;
    job.resources = { instance_type: value("instance") || undefined };
    return;
  }
  const strategy = value("strategy"), most = number("max_workers");
  job.search = { strategy, max_probes: number("max_probes") };
  if (most !== undefined) job.num_nodes = most > 1 ? `1..${most}` : 1;
  const hourly = number("usd_per_hour");
  if (hourly === undefined) return;
  job.resources = { max_hourly_cost: hourly };
  if ("takesHourly" in option.dataset) job.search.options = { usd_per_hour: hourly };
}

function data(job, value, form, upload) {
  const kind = value("data");
  if (kind === "upload") {
    if (!upload) throw new Error("data: no file is chosen.");
    job.file_mounts = { [value("data_path") || "data"]: upload };
  }
  if (kind === "builtin") {
    if (!value("builtin")) throw new Error("data: no built-in data set is installed.");
    job.file_mounts = { [value("data_path") || "data"]: value("builtin") };
  }
  if (kind !== "url") return;
  if (!value("data_url")) throw new Error("data: there is no address.");
  job.envs = { ...job.envs, [value("data_env") || "DATA_URL"]: value("data_url") };
  if (form.elements.data_fetch.checked) {
    const name = value("data_env") || "DATA_URL";
    const fetching = `mkdir -p data && curl --fail --silent --show-error --location --remote-name --output-dir data "$${name}"`;
    job.setup = [fetching, job.setup].filter(Boolean).join("\n");
  }
}

// 'NAME=value' lines as an object.
export function variables(key, text) {
  const found = {};
  for (const line of text.split("\n").filter((each) => each.trim())) {
    const at = line.indexOf("=");
    if (at < 1) throw Object.assign(new Error(`${key}: '${line}' is not NAME=value.`), { hint: "" });
    found[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return found;
}

const list = (text) => text.split(/[,\s]+/).filter(Boolean);
const numbers = (text) => list(text).map((each) => (/^\d+$/.test(each) ? Number(each) : each));

function clean(job) {
  const kept = Object.entries(job).filter(([, value]) => value !== undefined && value !== "" && !(Array.isArray(value) && !value.length));
  return Object.fromEntries(kept.map(([key, value]) => [key, isTable(value) ? clean(value) : value]).filter(([, value]) => !isTable(value) || Object.keys(value).length));
}

const isTable = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function merged(job, more) {
  const both = { ...more, ...job };
  for (const key of Object.keys(more)) if (isTable(more[key]) && isTable(job[key])) both[key] = merged(job[key], more[key]);
  return both;
}

// Fills the form from a job file's keys; what has no field is given back.
export function fill(form, job) {
  const rest = structuredClone(job);
  const set = (name, value) => { const field = form.elements[name]; if (field && value !== undefined && value !== null) field.value = value; };
  const take = (table, key) => { const value = table?.[key]; if (table) delete table[key]; return value; };
  const short = (key, name) => { if (key in rest && !isTable(rest[key])) rest[key] = { [name]: rest[key] }; };
  for (const [key, name] of Object.entries(JSON.parse(form.dataset.shortForms))) short(key, name);
  for (const name of ["name", "run", "setup", "platform", "goal", "budget", "deadline", "cloud"]) set(name, take(rest, name) ?? (name === "goal" || name === "platform" ? "" : undefined));
  const sizes = rest.batch_size ?? { sizes: "" };
  set("batch_size", "accumulate" in sizes ? "" : [take(rest, "batch_size")?.sizes ?? ""].flat().join(", "));
  if (Array.isArray(rest.outputs)) set("outputs", take(rest, "outputs").join(", "));
  if (Array.isArray(rest.secrets)) set("secrets", take(rest, "secrets").join(", "));
  if (isTable(rest.envs) && Object.values(rest.envs).every((each) => each !== null)) set("envs", Object.entries(take(rest, "envs")).map(([name, value]) => `${name}=${value}`).join("\n"));
  const amount = rest.work || {};
  set("work_kind", "samples" in amount ? "samples" : "epochs");
  set("work_amount", take(amount, "samples") ?? take(amount, "epochs"));
  set("dataset_size", take(amount, "dataset_size"));
  if (amount.until && !amount.until.direction) { set("until_metric", amount.until.metric); set("until_value", amount.until.value); delete amount.until; }
  set("strategy", take(rest.search, "strategy"));
  set("max_probes", take(rest.search, "max_probes"));
  set("checkpoint", take(rest.checkpoint, "path"));
  builtinData(form, rest);
  nodes(rest, set);
  delete rest.workdir;
  return clean(rest);
}

function builtinData(form, rest) {
  const [[path, source] = [], ...others] = Object.entries(rest.file_mounts ?? {});
  const known = [...form.elements.builtin.options].some((option) => option.value === source);
  if (!known || others.length) return;
  form.elements.data.value = "builtin";
  form.elements.builtin.value = source;
  form.elements.data_path.value = path;
  delete rest.file_mounts;
}

function nodes(rest, set) {
  const most = /^(?:1\.\.)?(\d+)$/.exec(String(rest.num_nodes ?? ""));
  if (!most) return;
  set("max_workers", most[1]);
  if (most[1] === "1" || String(rest.num_nodes).includes("..")) delete rest.num_nodes;
}
