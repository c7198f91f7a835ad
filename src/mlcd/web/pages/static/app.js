// What every page does: talk to the API, show moments in the reader's zone, send forms, sign out.

const csrf = document.querySelector('meta[name="csrf"]').content;

export class Fault extends Error {
  constructor(fault) {
    super(fault.message);
    this.hint = fault.hint || "";
    this.type = fault.type || "";
  }
  get words() { return [this.message, this.hint].filter(Boolean).join(" "); }
}

// The answer of the API, or a Fault. A POST carries a key of its own, and keeps it until it is answered: if the server
// went away after it had done what was asked for, asking again does not do it twice.
const unanswered = new Map();

export async function call(method, path, body, options = {}) {
  const headers = { "X-CSRF-Token": csrf };
  if (body !== undefined && !options.raw) headers["Content-Type"] = "application/json";
  const sent = options.raw ? body : body === undefined ? undefined : JSON.stringify(body);
  const what = `${path}\n${sent}`;
  if (method === "POST" && !options.raw) headers["Idempotency-Key"] = unanswered.get(what) || randomKey();
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: sent });
    unanswered.delete(what);
  } catch {
    if (headers["Idempotency-Key"]) unanswered.set(what, headers["Idempotency-Key"]);
    throw new Fault({ message: "The server cannot be reached.", hint: "Try again in a moment." });
  }
  const data = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Fault(data.error || { message: `The server answered ${answer.status}.` });
  return data;
}

function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function notify(words, tone = "bad") {
  const notice = document.getElementById("notice");
  notice.textContent = words;
  notice.className = `notice ${tone}`;
  notice.hidden = !words;
  if (words) notice.scrollIntoView({ block: "nearest" });
}

// Fields of a form as an object; empty ones are left out, numbers are numbers.
export function fields(form) {
  const found = {};
  for (const field of form.elements) {
    if (!field.name || field.value === "") continue;
    found[field.name] = field.type === "number" ? Number(field.value) : field.value;
  }
  return found;
}

export function localTimes(root = document) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(Number(time.getAttribute("datetime")) * 1000);
    if (!Number.isNaN(moment.getTime())) {
      const shown = moment.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
      if (time.textContent !== shown) time.textContent = shown;
    }
  }
}

async function send(form) {
  const error = form.querySelector("[data-error]");
  const button = form.querySelector("button");
  error.textContent = "";
  button.disabled = true;
  try {
    await call(form.dataset.method || "POST", form.dataset.post, fields(form));
    location.assign(form.dataset.then);
  } catch (fault) {
    error.textContent = fault.words || fault.message;
    button.disabled = false;
  }
}

for (const form of document.querySelectorAll("form[data-post]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
}
document.querySelector("[data-sign-out]")?.addEventListener("click", async () => {
  await call("DELETE", "/api/v1/session").catch(() => {});
  location.assign("/login");
});
localTimes();
