"use strict";
// Asks the server for the data of the state that the controls have, which plot.js draws. The state
// is kept in the address, so that a reload restores it.

const live = data.live;
const TYPING = 400; // milliseconds without a key until the server is asked
const tab = crypto.randomUUID();
// The number of the last request, and of the last one that is answered or refused.
const asked = { number: 0, settled: 0, timer: null, ticking: null };
const fresh = () => structuredClone({ ...live.state, label: null, cut: null, beta: 0 });
let question = restored() ?? fresh();
const clearCut = { tokens: [], to: "target", layers: null, heads: null };

// The state in the address, if it is one of this task.
function restored() {
  try {
    const found = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    const texts = [found.query, ...found.demonstrations.map((demonstration) => demonstration.text)];
    return texts.every((text) => text.length === live.fields.length) ? { ...fresh(), ...found } : null;
  } catch {
    return null;
  }
}

const cut = () => (question.cut ??= structuredClone(clearCut));

// Keeps the state, and which part of the answer is shown, in the address.
function keep() {
  const { view, layer, head, count } = state;
  question.view = { view, layer, head, count };
  history.replaceState(null, "", `/#${encodeURIComponent(JSON.stringify(question))}`);
}

// Sends the state, at once or after a pause in typing.
function ask({ typing = false, further = false } = {}) {
  clearTimeout(asked.timer);
  asked.timer = setTimeout(() => {
    asked.timer = null;
    keep();
    answer(further);
  }, typing ? TYPING : 0);
}

// What is wrong with the fields of layers and heads, in a sentence, or nothing.
function wrongField() {
  const { layers, heads } = question.cut ?? clearCut;
  const isLayer = (layer) => Number.isInteger(layer) && layer >= 0 && layer < live.depth;
  if (layers && !layers.every(isLayer)) {
    return `layers: give two whole numbers from 0 to ${live.depth - 1}.`;
  }
  return typeof heads === "string"
    ? `heads: “${heads}” is no list of numbers; write them by commas, or nothing for all.` : "";
}

async function sent(path, further) {
  const number = ++asked.number;
  if (wrongField()) throw new Error(wrongField());
  const changed = question.cut?.tokens.length ? question.cut : null;
  const layer = state.view === "layer" ? state.layer : null; // at which a saved page opens
  const { view: _, ...rest } = question;
  const body = JSON.stringify({ ...rest, cut: changed, further, layer, tab, number });
  const response = await fetch(path, { method: "POST", body });
  if (response.status === 409 || number !== asked.number) return null;
  if (response.ok) return response;
  const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
  throw new Error(isJson ? (await response.json()).error : await response.text());
}

// Runs what waits for the server, and tells how long it takes and what went wrong.
async function waiting(work) {
  const started = performance.now();
  const seconds = () => ((performance.now() - started) / 1000).toFixed(1);
  clearInterval(asked.ticking);
  asked.ticking = setInterval(() => {
    byId("progress").hidden = false;
    byId("status").textContent = `Computing for ${Math.round(seconds())} s …`;
  }, 1000);
  document.body.classList.add("stale");
  let finished = true;
  try {
    const outcome = await work();
    finished = outcome !== null;
    if (finished) {
      byId("problem").textContent = "";
      byId("status").textContent = `${outcome} after ${seconds()} s.`;
    }
  } catch (error) {
    byId("status").textContent = "";
    const ended = error instanceof TypeError;
    byId("problem").textContent = ended
      ? "The server does not answer; run anchorflow explore again." : visible(error.message);
  }
  if (!finished) return; // a newer request has taken its place
  asked.settled = asked.number;
  clearInterval(asked.ticking);
  byId("progress").hidden = true;
  document.body.classList.remove("stale");
}

const answer = (further) => waiting(async () => {
  const response = await sent("/answer", further);
  if (!response) return null;
  const [before, next] = [data.texts?.length, await response.json()];
  const singles = question.cut?.tokens.some((name) => typeof name === "number");
  show(next);
  nameDemonstrations();
  if (before && before !== next.texts.length && singles) {
    forgetTokens();
    ask();
  }
  writeChanges();
  return "Answered";
});

const save = () => waiting(async () => {
  const response = await sent("/save", true);
  if (!response) return null;
  const link = document.createElement("a");
  const address = URL.createObjectURL(await response.blob());
  Object.assign(link, { href: address, download: "information_flow.html" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
  return "Saved";
});

// A text area for each field of a text.
function writeText(parent, text, name) {
  const box = element("div", parent);
  live.fields.forEach((field, k) => {
    const called = live.fields.length > 1 ? `${name}, ${field}` : name;
    const area = Object.assign(element("textarea", box), { rows: 1, value: text[k], dir: "auto" });
    area.setAttribute("aria-label", called);
    if (live.fields.length > 1) area.placeholder = field;
    area.addEventListener("input", () => {
      text[k] = area.value;
      forgetTokens();
      ask({ typing: true });
    });
  });
}

function writeOptions(select, chosen, first = []) {
  select.replaceChildren();
  for (const [value, word] of [...first, ...question.labels.map((word, k) => [k, word.trim()])]) {
    element("option", select, visible(word)).value = value;
  }
  select.value = chosen ?? "";
}

function writeDemonstrations() {
  byId("demonstrations").replaceChildren();
  question.demonstrations.forEach((demonstration, k) => {
    const row = element("div", element("li", byId("demonstrations")), undefined, "demonstration");
    writeText(row, demonstration.text, `demonstration ${k + 1}`);
    const select = element("select", row);
    select.setAttribute("aria-label", `label of demonstration ${k + 1}`);
    writeOptions(select, demonstration.label);
    select.addEventListener("change", () => {
      demonstration.label = Number(select.value);
      ask();
    });
    const remove = Object.assign(element("button", row, "Remove"), { type: "button" });
    remove.setAttribute("aria-label", `remove demonstration ${k + 1}`);
    remove.addEventListener("click", () => {
      question.demonstrations.splice(k, 1);
      forgetTokens(/^kind:[^[]*$/);
      writeDemonstrations();
      (byId("demonstrations").children[k]?.querySelector("button") ?? byId("add")).focus();
      ask();
    });
  });
}

// Single tokens have other numbers in another prompt; kinds of tokens keep their names.
function forgetTokens(kept = /^kind:/) {
  if (question.cut) question.cut.tokens = question.cut.tokens.filter((name) => kept.test(name));
}

const boxes = () => [...document.querySelectorAll("#changes input[type=checkbox]")];

function writeWording() {
  Object.assign(byId("template"), { value: question.template });
  Object.assign(byId("labels"), { value: question.labels.map((word) => word.trim()).join("\n") });
  writeDemonstrations();
  byId("query").replaceChildren();
  writeText(byId("query"), question.query, "query");
}

function writeChanges() {
  const { tokens: names, to, layers, heads } = question.cut ?? clearCut;
  for (const box of boxes()) box.checked = names.includes(`kind:${box.value}`);
  byId("to").value = to;
  const [first, last] = layers ?? [0, live.depth - 1];
  Object.assign(byId("first-layer"), { value: first, max: live.depth - 1 });
  Object.assign(byId("last-layer"), { value: last, max: live.depth - 1 });
  byId("cut-heads").value = Array.isArray(heads) ? heads.join(", ") : heads ?? "";
  byId("beta").value = question.beta;
  const factor = Math.exp(question.beta);
  byId("factor").textContent = `attention × ${factor < 10 ? factor.toFixed(2) : factor.toFixed(1)}`;
  writeOptions(byId("label"), question.label, [["", "the model's answer"]]);
  byId("further").disabled = question.beta !== 0;
  byId("further").textContent = names.length
    ? "Compare with random tokens" : "Cut each flow in each layer";
}

// Adds one to some, or removes it.
function toggled(some, one) {
  return some.includes(one) ? some.filter((other) => other !== one) : [...some, one];
}

// Cuts attention to a token, or no longer; a kind that it is of is then cut token by token.
function toggleToken(token) {
  const named = data.cut_tokens.includes(token) && !cut().tokens.includes(token);
  cut().tokens = toggled(named ? data.cut_tokens : cut().tokens, token);
  ask();
}

// A button that cuts a demonstration, beside its name.
function nameDemonstrations() {
  document.querySelectorAll(".block h2").forEach((name) => {
    const number = /^demonstration (\d+)$/.exec(name.textContent)?.[1];
    if (!number || name.querySelector("button")) return;
    name.removeAttribute("aria-hidden");
    const button = Object.assign(element("button", name, "cut"), { type: "button" });
    button.setAttribute("aria-label", `cut demonstration ${number}`);
    button.addEventListener("click", () => {
      cut().tokens = toggled(cut().tokens, `kind:demonstration[${number - 1}]`);
      ask();
    });
  });
}

function readChanges() {
  const [first, last] = ["first-layer", "last-layer"].map((id) => byId(id).valueAsNumber);
  const every = first === 0 && last === live.depth - 1;
  const typed = byId("cut-heads").value;
  const isList = /^\s*(\d+(\s*,\s*\d+)*)?\s*$/.test(typed);
  const names = boxes().filter((box) => box.checked).map((box) => `kind:${box.value}`);
  const others = cut().tokens.filter((name) => !boxes().some((box) => name === `kind:${box.value}`));
  Object.assign(cut(), {
    tokens: [...names, ...others],
    to: byId("to").value,
    layers: every ? null : [first, last],
    // What is no list is kept as it is typed, and refused when it is sent.
    heads: isList ? typed.match(/\d+/g)?.map(Number) ?? null : typed,
  });
  question.beta = byId("beta").valueAsNumber;
  question.label = byId("label").value === "" ? null : Number(byId("label").value);
}

function begin() {
  byId("changes").addEventListener("submit", (event) => event.preventDefault());
  byId("changes").addEventListener("input", ({ target }) => {
    readChanges();
    byId("factor").textContent = `attention × ${Math.exp(question.beta).toFixed(2)}`;
    ask({ typing: target.type === "text" || target.type === "number" || target.type === "range" });
  });
  byId("template").addEventListener("input", ({ target }) => {
    question.template = target.value;
    forgetTokens();
    ask({ typing: true });
  });
  byId("labels").addEventListener("input", ({ target }) => {
    const [space] = /^\s*/.exec(question.labels[0] ?? " ");
    question.labels = target.value.split("\n").filter((word) => word.trim()).map((word) => space + word.trim());
    writeDemonstrations();
    ask({ typing: true });
  });
  byId("add").addEventListener("click", () => {
    question.demonstrations.push({ text: live.fields.map(() => ""), label: 0 });
    forgetTokens();
    writeDemonstrations();
    byId("demonstrations").lastChild.querySelector("textarea").focus();
  });
  byId("nothing").addEventListener("click", () => {
    question.cut = null;
    ask();
  });
  byId("chosen-head").addEventListener("click", () => {
    const layer = data.numbers[state.layer];
    Object.assign(cut(), { layers: [layer, layer], heads: [state.head] });
    if (!cut().tokens.length) cut().tokens = ["kind:label_words"];
    ask();
  });
  byId("further").addEventListener("click", () => ask({ further: true }));
  byId("save").addEventListener("click", save);
  byId("reset").addEventListener("click", () => {
    question = fresh();
    writeWording();
    ask();
  });
  byId("prompt").addEventListener("click", ({ target }) => {
    if ("token" in target.dataset) toggleToken(Number(target.dataset.token));
  });
  byId("prompt").addEventListener("keydown", (event) => {
    if (!("token" in event.target.dataset) || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    toggleToken(Number(event.target.dataset.token));
  });
  for (const [id, event] of [["heads", "click"], ["cuts", "click"], ["controls", "input"]]) {
    byId(id).addEventListener(event, () => {
      byId("chosen-head").disabled = state.head === null;
      const name = state.head === null ? "one head" : `head ${data.numbers[state.layer]}.${state.head}`;
      byId("chosen-head").textContent = `in ${name} only`;
      keep();
    });
  }
  window.addEventListener("hashchange", () => {
    question = restored() ?? fresh();
    writeWording();
    ask();
  });
}

begin();
Object.assign(state, question.view);
writeWording();
writeChanges();
ask();
