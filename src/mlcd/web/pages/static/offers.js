// Filters the table of offers and puts marked ones side by side.

const table = document.querySelector("[data-offers]");
const words = document.querySelector("[data-filter]"), most = document.querySelector("[data-most]"), gpu = document.querySelector("[data-gpu]");
const compare = document.querySelector("[data-compare]");
const rows = table ? [...table.tBodies[0].rows] : [];

function filter() {
  const wanted = words.value.trim().toLowerCase(), cap = most.value === "" ? Infinity : Number(most.value);
  for (const row of rows) {
    const fits = row.textContent.toLowerCase().includes(wanted) && Number(row.dataset.usd) <= cap;
    row.hidden = !(fits && (!gpu.checked || Number(row.dataset.gpus) > 0));
  }
}

function show() {
  const marked = rows.filter((row) => row.querySelector("input").checked);
  compare.hidden = marked.length < 2;
  const made = document.createElement("table");
  [...table.tHead.rows[0].cells].slice(1).forEach((head, i) => {
    const line = made.insertRow(), name = document.createElement("th");
    name.textContent = head.textContent;
    line.append(name);
    for (const row of marked) line.insertCell().textContent = row.cells[i + 1].textContent.trim();
  });
  compare.querySelector("div").replaceChildren(made);
}

for (const field of [words, most, gpu]) field.addEventListener("input", filter);
for (const row of rows) row.querySelector("input").addEventListener("change", show);
