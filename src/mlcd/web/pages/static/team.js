// Tokens, secrets, people and budgets.

import { call, fields, notify } from "./app.js";

async function act(work) {
  try {
    await work();
  } catch (fault) {
    notify(fault.words || fault.message);
  }
}

function inForm(form, work) {
  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const error = form.querySelector("[data-error]");
    error.textContent = "";
    try {
      await work(fields(form));
    } catch (fault) {
      error.textContent = fault.words || fault.message;
    }
  });
}

inForm(document.querySelector("[data-token]"), async (wanted) => {
  const { text } = await call("POST", "/api/v1/tokens", wanted);
  const made = document.querySelector("[data-made]");
  made.querySelector("code").textContent = text;
  made.hidden = false;
});
inForm(document.querySelector("[data-secret]"), async ({ name, value }) => {
  await call("PUT", `/api/v1/secrets/${encodeURIComponent(name)}`, { value });
  location.reload();
});
for (const button of document.querySelectorAll("[data-delete]")) {
  button.addEventListener("click", () => act(async () => {
    if (!confirm(button.dataset.ask)) return;
    await call("DELETE", button.dataset.delete);
    location.reload();
  }));
}

const amount = (row) => { const { value } = row.querySelector("[name=budget_usd]"); return value === "" ? null : Number(value); };
for (const row of document.querySelectorAll("[data-account]")) {
  const path = `/api/v1/accounts/${encodeURIComponent(row.dataset.account)}`;
  row.querySelector("[data-save]").addEventListener("click", () => act(async () => {
    await call("PATCH", path, { role: row.querySelector("[name=role]").value, team: row.querySelector("[name=team]").value, budget_usd: amount(row) });
    notify(`${row.dataset.account} is saved.`, "good");
  }));
  const disable = row.querySelector("[data-disable]");
  disable.addEventListener("click", () => act(async () => {
    await call("PATCH", path, { disabled: disable.dataset.disable === "true" });
    location.reload();
  }));
}
for (const row of document.querySelectorAll("[data-team]")) {
  row.querySelector("[data-save]").addEventListener("click", () => act(async () => {
    await call("PUT", `/api/v1/teams/${encodeURIComponent(row.dataset.team)}`, { budget_usd: amount(row) });
    notify(`Team ${row.dataset.team} is saved.`, "good");
  }));
}
