// Asks a model for predictions.

import { call } from "./app.js";

const place = document.querySelector("[data-model]");
if (place) {
  const path = `/api/v1/models/${encodeURIComponent(place.dataset.model)}/predict`;
  const form = place.querySelector("form"), about = place.querySelector("[data-about]"), error = form.querySelector("[data-error]");
  call("GET", path).then(
    ({ kind, file }) => { about.textContent = `${file}${kind === file ? "" : ` (${kind})`} answers, in a process of its own.`; form.hidden = false; },
    (fault) => { about.textContent = fault.words || fault.message; },
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    error.textContent = "";
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      const inputs = read(form.elements.inputs.value);
      const { outputs } = await call("POST", path, { inputs, dtype: form.elements.dtype.value });
      place.querySelector("[data-outputs]").hidden = false;
      place.querySelector("[data-outputs] pre").textContent = JSON.stringify(outputs, null, 1);
    } catch (fault) {
      error.textContent = fault.words || fault.message;
    }
    button.disabled = false;
  });
}

function read(text) {
  try {
    return JSON.parse(text);
  } catch (problem) {
    throw new Error(`The inputs are not JSON: ${problem.message}`);
  }
}
