"use strict";
// Filters the list: a row stays visible if it contains every word of the search, in any order.

const search = document.getElementById("search");
const rows = [...document.querySelectorAll("tbody tr")];
const texts = rows.map((row) => row.textContent.toLowerCase());

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  rows.forEach((row, index) => {
    const fits = words.every((word) => texts[index].includes(word));
    row.hidden = !fits;
    shown += fits;
  });
  const all = `${rows.length} ${rows.length === 1 ? "prompt" : "prompts"}`;
  document.getElementById("found").textContent = words.length ? `${shown} of ${all}` : all;
}

document.getElementById("find").hidden = false;
document.getElementById("find").addEventListener("submit", (event) => event.preventDefault());
search.addEventListener("input", filter);
filter();
