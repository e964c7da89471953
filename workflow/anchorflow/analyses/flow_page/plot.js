"use strict";
// Draws the information flow of one prompt from the JSON in #data; plot.py describes its fields.
// Texts in the data enter the page only through textContent, so that none can act as markup.

const SVG = "http://www.w3.org/2000/svg";
const WIDEST = 9; // pixels
const MOST = 200; // arcs at once; the data have this number per flow and view
const LISTED = 6; // arcs to a token, and from it
const DASHES = [[2.4, 1], [], [0.7, 1]]; // per flow, in widths of the arc
const [FOR, AGAINST] = ["#b35806", "#542788"]; // what heads write for, and against, the true label
const byId = (id) => document.getElementById(id);
const shown = new Set([0, 1, 2]); // flows
const state = { view: "layer", layer: null, head: null, count: 40, focused: null, hovered: null };
const tokens = [];
let data = JSON.parse(byId("data").textContent);
let arcs = [];

function element(name, parent, text, className = "") {
  const made = parent.appendChild(document.createElement(name));
  if (text !== undefined) made.textContent = text;
  made.className = className;
  return made;
}

function drawing(name, parent, attributes) {
  const made = parent.appendChild(document.createElementNS(SVG, name));
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// Replaces invisible characters, and those that change the direction of text, by visible ones.
function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0);
    if (character === "\n") return "↵";
    if (code < 32) return String.fromCodePoint(0x2400 + code);
    return `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
  });
}

const nats = (value) => (value === 0 ? "0" : value.toPrecision(3));
const quoted = (token) => `“${visible(data.texts[token])}”`;
const view = () => (state.view === "layer" ? data.layers[state.layer] : data.averages[state.view]);

// Index of the demonstration whose label word contains the token, or -1.
function wordOf(token) {
  return data.label_positions.findIndex((first, k) => first <= token && token < data.label_ends[k]);
}

function role(token) {
  const demonstration = wordOf(token);
  if (demonstration >= 0) return `label word of demonstration ${demonstration + 1}`;
  if (token === data.target) return "target";
  if (data.format.includes(token)) return "formatting";
  return token < data.instruction_end ? "instruction" : fieldOf(token);
}

// Name of the field that contains the token; "text" if there is only one field.
function fieldOf(token) {
  const span = data.field_starts.findIndex((first, k) => first <= token && token < data.field_ends[k]);
  return data.fields[Math.max(span, 0) % data.fields.length];
}

function nameBlock(block, name) {
  element("h2", block, name).setAttribute("aria-hidden", "true");
  block.setAttribute("role", "group");
  block.setAttribute("aria-label", name);
}

function writeFacts() {
  byId("facts").replaceChildren();
  for (const [name, value] of Object.entries(data.facts)) {
    const pair = element("div", byId("facts"));
    element("dt", pair, name);
    element("dd", pair, visible(value));
  }
}

function writePrompt() {
  tokens.length = 0;
  Object.assign(state, { focused: null, hovered: null });
  byId("prompt").replaceChildren();
  const starts = new Map(data.blocks.map((start, block) => [start, block]));
  let block = element("div", byId("prompt"), undefined, "block");
  if (data.instruction_end !== null) nameBlock(block, "instruction");
  data.texts.forEach((text, token) => {
    if (starts.has(token)) {
      if (tokens.length) block = element("div", byId("prompt"), undefined, "block");
      const last = starts.get(token) === data.blocks.length - 1;
      nameBlock(block, last ? "query" : `demonstration ${starts.get(token) + 1}`);
    }
    const word = text.replace(/^ +/, "") || "␣".repeat(text.length || 1);
    block.append(text.slice(0, text.length - word.length));
    const span = element("span", block, visible(word), "token");
    span.classList.toggle("format", data.format.includes(token));
    span.classList.toggle("label", wordOf(token) >= 0);
    span.classList.toggle("target", token === data.target);
    span.tabIndex = token === 0 ? 0 : -1;
    span.dataset.token = token;
    span.setAttribute("role", "option");
    if (text.includes("\n")) element("br", block);
    tokens.push(span);
  });
}

// Marks the tokens to which attention is cut.
function markCut() {
  tokens.forEach((span, token) => {
    const cut = Boolean(data.cut_tokens?.includes(token));
    span.classList.toggle("cut", cut);
    const name = `token ${token}: ${visible(data.texts[token])} (${role(token)})`;
    span.setAttribute("aria-label", cut ? `${name}, cut` : name);
  });
}

function writeControls() {
  byId("averages").replaceChildren();
  document.querySelector("#flows tbody").replaceChildren();
  Object.assign(byId("layer"), { max: data.layers.length - 1, value: state.layer });
  Object.assign(byId("count"), { max: MOST, value: state.count });
  for (const [key, average] of Object.entries(data.averages)) {
    const label = element("label", byId("averages"));
    const checked = state.view === key;
    Object.assign(element("input", label), { type: "radio", name: "view", value: key, checked });
    label.append(` ${average.name}`);
  }
  data.flows.forEach((flow, index) => {
    const row = element("tr", document.querySelector("#flows tbody"));
    const label = element("label", element("th", row));
    const box = Object.assign(element("input", label), { type: "checkbox", checked: shown.has(index) });
    label.append(` ${flow.name} (${flow.symbol})`);
    box.addEventListener("change", () => {
      shown[box.checked ? "add" : "delete"](index);
      draw();
    });
    const sample = { width: 60, height: 10, "aria-hidden": true };
    path(drawing("svg", element("td", row), sample), "M0 5H60", index, 3);
    for (const cell of ["mean", "share", "pairs", "cut"]) element("td", row, flow[cell], cell);
  });
}

// One row of bars for each flow, and for random tokens; nothing where no single cut was measured.
function writeCuts() {
  const measured = data.cuts.flat().some(Boolean);
  for (const row of byId("cuts").querySelectorAll(".bars")) row.remove();
  byId("cuts").hidden = !measured;
  byId("flows").classList.toggle("uncut", !measured);
  if (measured) data.cuts.forEach((_, index) => writeBars(index));
}

// What is cut: the flows, and random tokens to which the target attends as much as along S_pq.
const cutName = (index) => data.flows[index] ?? { symbol: "random", color: "#777" };
const largest = (cuts) => Math.max(...cuts.map((cut) => Math.abs(cut?.[0] ?? 0)));
const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${nats(Math.abs(value))}`;

// Effect of cutting a flow in a layer, in words.
function toldOfCut(flow, layer) {
  const cut = data.cuts[flow][layer];
  if (!cut) return "not cut";
  const [change, other] = cut;
  return `loss ${signed(change)}, ${other === null ? "same answer" : `answer ${visible(other)}`}`;
}

// One bar per layer: change of the loss if the flow is cut there.
function writeBars(flow) {
  const row = element("div", byId("cuts"), undefined, "bars");
  element("span", row, cutName(flow).symbol);
  const [width, height] = [Math.max(6, Math.min(24, 560 / data.layers.length)), 44];
  const size = { width: width * data.layers.length, height, role: "group" };
  const most = largest(data.cuts.flat()) || 1;
  const svg = drawing("svg", row, { ...size, "aria-label": `cuts of ${cutName(flow).symbol}` });
  drawing("path", svg, { d: `M0 ${height / 2}H${size.width}`, stroke: "#bbb" });
  data.cuts[flow].forEach((cut, layer) => {
    if (!cut) return;
    const long = (Math.abs(cut[0]) / most) * (height / 2 - 1);
    const bar = drawing("g", svg, { role: "button", "data-layer": layer, tabindex: layer ? -1 : 0 });
    const effect = `${data.layers[layer].name}: ${toldOfCut(flow, layer)}`;
    bar.setAttribute("aria-label", effect);
    drawing("title", bar, {}).textContent = effect;
    drawing("rect", bar, { x: layer * width, y: 0, width, height, class: "place" });
    drawing("rect", bar, {
      x: layer * width + 1,
      y: cut[0] > 0 ? height / 2 - long : height / 2,
      width: width - 2,
      height: Math.max(long, 0.5),
      stroke: cutName(flow).color,
      fill: cut[1] === null ? "white" : cutName(flow).color,
    });
    bar.addEventListener("click", () => chooseLayer(layer));
    bar.addEventListener("keydown", (event) => moveAmong(event, svg, 1));
  });
  element("span", row, `up to ${nats(largest(data.cuts[flow]))} nats`, "note");
}

// The chosen layer has its number in the model, where other layers may not attend.
const chosenHead = () => `${data.layers[state.layer].name}, head ${state.head}`;

function layerNumbers() {
  const { length } = data.numbers;
  return data.numbers[length - 1] === length - 1 ? `0 to ${length - 1}` : data.numbers.join(", ");
}

// Sums over all tokens of what a head writes for the labels, in words.
function sumsOfHead(layer, head) {
  const sums = data.heads.totals[layer][head].map((sum, c) => `${data.heads.words[c]} ${signed(sum)}`);
  return visible(sums.join(", "));
}

// A square per layer and head: what the head writes for the true label.
function writeHeads() {
  byId("heads").querySelector(".bars")?.remove();
  byId("heads").hidden = !data.heads;
  if (!data.heads) return;
  const { totals, label } = data.heads;
  const most = Math.max(...totals.flat().map((sums) => Math.abs(sums[label]))) || 1;
  const size = Math.max(8, Math.min(22, 700 / totals.length));
  const grid = { width: size * totals.length, height: size * totals[0].length, role: "group" };
  const row = element("div", byId("heads"), undefined, "bars");
  element("span", row, "heads");
  const svg = drawing("svg", row, { ...grid, "aria-label": "heads, one column per layer" });
  totals.forEach((heads, layer) => heads.forEach((sums, head) => {
    const square = drawing("g", svg, {
      role: "button", "data-layer": layer, "data-head": head, tabindex: layer + head ? -1 : 0,
    });
    const name = `head ${data.numbers[layer]}.${head}: ${sumsOfHead(layer, head)} logits`;
    square.setAttribute("aria-label", name);
    drawing("title", square, {}).textContent = name;
    drawing("rect", square, {
      x: layer * size, y: head * size, width: size - 1, height: size - 1, class: "square",
      fill: sums[label] > 0 ? FOR : AGAINST,
      "fill-opacity": 0.04 + (0.96 * Math.abs(sums[label])) / most,
    });
    square.addEventListener("click", () => chooseLayer(layer, head));
    square.addEventListener("keydown", (event) => moveAmong(event, svg, heads.length));
  }));
  const unchanged = data.facts.probabilities ? "; all of the unchanged prompt" : "";
  const range = `layers ${layerNumbers()}; up to ${nats(most)} logits${unchanged}`;
  element("span", row, range, "note");
}

function chooseLayer(layer, head = null) {
  Object.assign(state, { view: "layer", layer, head });
  byId("layer").value = layer;
  document.querySelector('input[value="layer"]').checked = true;
  draw();
}

// Moves between bars or squares, of which each layer has the given number, one below the other.
function moveAmong(event, svg, ofLayer) {
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    return event.currentTarget.dispatchEvent(new Event("click", { bubbles: true }));
  }
  if (ofLayer === 1 && /Up|Down/.test(event.key)) return undefined;
  const bars = [...svg.querySelectorAll("g")];
  const here = bars.indexOf(event.currentTarget);
  const step = { ArrowLeft: -ofLayer, ArrowRight: ofLayer, ArrowUp: -1, ArrowDown: 1 }[event.key];
  const next = bars[here + step];
  if (!next) return undefined;
  event.preventDefault();
  bars[here].setAttribute("tabindex", -1);
  next.setAttribute("tabindex", 0);
  return next.focus();
}

function path(parent, shape, flow, width, color = data.flows[flow].color) {
  return drawing("path", parent, {
    d: shape,
    stroke: color,
    "stroke-width": width,
    "stroke-dasharray": DASHES[flow].map((part) => part * Math.max(width, 2.5)).join(" "),
  });
}

// The chosen head's attention from the target, weakest first.
function arcsOfHead() {
  const { read, label } = data.heads;
  return read[state.layer][state.head]
    .filter(([from, value]) => from !== data.target && value > 0)
    .map(([from, value, writes]) => (
      { flow: 1, from, to: data.target, value, writes, color: writes[label] > 0 ? FOR : AGAINST }
    ))
    .slice(0, state.count).reverse();
}

// The strongest arcs of the selected flows, weakest first so that strong ones lie on top.
function strongest() {
  const every = view().arcs.flatMap((arcsOfFlow, flow) =>
    shown.has(flow) ? arcsOfFlow.map(([from, to, value]) => ({ flow, from, to, value })) : [],
  );
  return every.sort((a, b) => b.value - a.value).slice(0, state.count).reverse();
}

function scaleOf(list) {
  if (state.head !== null) {
    return `${chosenHead()}: the target's attention to the ${list.length} tokens ` +
      "to which it attends most; widths are relative to the largest.";
  }
  const name = view().name;
  if (!list.length) return `${name}: no arc of the selected flows is above 0.`;
  return `${name}: the ${list.length} strongest arcs, of ${nats(list[0].value)} to ` +
    `${nats(list[list.length - 1].value)} nats; widths are relative to the strongest.`;
}

// An arc above the tokens if both are on one line, else from below the one to above the other.
function shape(arc, origin) {
  const [a, b] = [arc.from, arc.to].map((token) => tokens[token].getClientRects()[0]);
  const x1 = a.left + a.width / 2 - origin.left;
  const x2 = b.left + b.width / 2 - origin.left;
  const top = b.top - origin.top;
  if (Math.abs(a.top - b.top) < a.height / 2) {
    const over = top - Math.min(26, 10 + Math.abs(x2 - x1) / 8);
    return `M${x1} ${top}C${x1} ${over} ${x2} ${over} ${x2} ${top}`;
  }
  const bottom = a.bottom - origin.top;
  const bend = Math.max(14, (top - bottom) / 2);
  const bow = (top - bottom) / 7; // keeps arcs apart that would run straight down over each other
  return `M${x1} ${bottom}C${x1 + bow} ${bottom + bend} ${x2 + bow} ${top - bend} ${x2} ${top}`;
}

function draw() {
  const current = view();
  const total = current.means.reduce((sum, mean) => sum + mean, 0) || 1;
  document.querySelectorAll("#flows tbody tr").forEach((row, flow) => {
    const mean = current.means[flow];
    row.querySelector(".mean").textContent = nats(mean);
    row.querySelector(".share").textContent = `${((100 * mean) / total).toFixed(0)} %`;
    const single = state.view === "layer";
    row.querySelector(".cut").textContent = single ? toldOfCut(flow, state.layer) : "–";
  });
  for (const bar of document.querySelectorAll("#cuts g, #heads g")) {
    const { layer, head = state.head } = bar.dataset;
    const here = state.view === "layer" && Number(layer) === state.layer && head == state.head;
    bar.classList.toggle("here", here);
    bar.setAttribute("aria-pressed", here);
  }
  byId("layer-name").textContent = data.layers[state.layer].name;
  byId("layer").setAttribute("aria-valuetext", data.layers[state.layer].name);
  byId("count-name").textContent = `${state.count} arcs`;

  const list = state.head === null ? strongest() : arcsOfHead();
  const widest = list.length ? list[list.length - 1].value : 1;
  document.querySelector("#prompt svg")?.remove();
  const svg = drawing("svg", byId("prompt"), { "aria-hidden": true });
  byId("prompt").prepend(svg);
  const origin = svg.getBoundingClientRect();
  arcs = list.map((arc) => {
    const strength = arc.value / widest;
    const width = Math.max(0.7, WIDEST * strength);
    const line = path(svg, shape(arc, origin), arc.flow, width, arc.color);
    line.setAttribute("opacity", 0.35 + 0.5 * strength);
    drawing("title", line, {}).textContent =
      `${quoted(arc.from)} → ${quoted(arc.to)}: ${measured(arc)}`;
    return { ...arc, line };
  });
  byId("scale").textContent = scaleOf(list);
  describe();
}

// An arc's number: saliency, or what a head reads and writes.
function measured({ value, writes }) {
  if (!writes) return `${nats(value)} nats`;
  const most = writes.reduce((best, effect, c) => (Math.abs(effect) > Math.abs(writes[best]) ? c : best), 0);
  const word = visible(data.heads.words[most]);
  return `attention ${nats(value)}, writes ${signed(writes[most])} for ${word}`;
}

function listArcs(title, some, other) {
  if (!some.length) return;
  element("h3", byId("details"), title);
  const list = element("ol", byId("details"));
  for (const arc of some.slice(0, LISTED)) {
    element("li", list, `${quoted(arc[other])} (token ${arc[other]}): ${measured(arc)}`);
  }
  if (some.length > LISTED) element("p", byId("details"), `and ${some.length - LISTED} weaker ones`);
}

// Values of the token under the pointer, else of the focused one, and its arcs among those drawn.
function describe() {
  const token = state.hovered ?? state.focused;
  const write = (name, text, kind) => element(name, byId("details"), text, kind);
  byId("details").replaceChildren();
  write("p", visible(data.facts.probabilities ?? data.facts.prediction), "answer");
  for (const one of document.querySelectorAll(".linked, .active")) {
    one.classList.remove("linked", "active");
  }
  document.querySelector("#prompt svg").classList.toggle("dimmed", token !== null);
  if (token === null && state.head !== null) {
    write("h2", chosenHead());
    write("p", `writes for the labels: ${sumsOfHead(state.layer, state.head)} logits`);
    return listArcs("Attends most to", [...arcs].reverse(), "from");
  }
  if (token === null) return write("p", "Point at a token, or focus it, for its values.");
  tokens[token].classList.add("active");
  write("h2", `${token}: ${quoted(token)}`);
  write("p", role(token));
  write("p", `receives ${nats(view().received[token])} nats from all earlier tokens`);
  write("p", `sends ${nats(view().sent[token])} nats to all later tokens`);
  const own = arcs.filter((arc) => arc.from === token || arc.to === token).reverse();
  for (const arc of own) {
    arc.line.classList.add("linked");
    tokens[arc.from === token ? arc.to : arc.from].classList.add("linked");
  }
  listArcs("Strongest arcs to it", own.filter((arc) => arc.to === token), "from");
  listArcs("Strongest arcs from it", own.filter((arc) => arc.from === token), "to");
  return own.length || write("p", "None of its arcs is among those drawn.");
}

function moveFocus(event) {
  const here = Number(event.target.dataset.token);
  const marked = [...data.label_positions, data.target];
  const next = {
    ArrowLeft: here - 1,
    ArrowRight: here + 1,
    ArrowUp: marked.findLast((token) => token < here),
    ArrowDown: marked.find((token) => token > here),
    Home: 0,
    End: tokens.length - 1,
  }[event.key];
  if (tokens[next] === undefined) return;
  event.preventDefault();
  tokens[next].focus();
}

function control({ target }) {
  if (target === byId("layer")) return chooseLayer(Number(target.value));
  if (target === byId("count")) state.count = Number(target.value);
  else Object.assign(state, { view: target.value, head: null });
  return draw();
}

// Updates the token under the pointer or the focused one, which is then the only tab stop.
function attend(key, token) {
  state[key] = token;
  if (key === "focused" && token !== null) {
    document.querySelector('.token[tabindex="0"]').tabIndex = -1;
    tokens[token].tabIndex = 0;
  }
  describe();
}

function listen() {
  const tokenOf = ({ target }) => ("token" in target.dataset ? Number(target.dataset.token) : null);
  const prompt = byId("prompt");
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("controls").addEventListener("input", control);
  prompt.addEventListener("focusin", (event) => attend("focused", tokenOf(event)));
  prompt.addEventListener("focusout", () => attend("focused", null));
  prompt.addEventListener("mouseover", (event) => attend("hovered", tokenOf(event)));
  prompt.addEventListener("mouseleave", () => attend("hovered", null));
  prompt.addEventListener("keydown", moveFocus);
  new ResizeObserver(() => data.texts && draw()).observe(prompt);
}

// Draws other data; what is chosen stays, and the prompt's elements if its tokens are the same.
function show(next) {
  const parts = ({ texts, blocks, label_positions, format }) => (
    JSON.stringify([texts, blocks, label_positions, format])
  );
  const same = tokens.length > 0 && parts(data) === parts(next);
  data = next;
  if (!data.layers[state.layer]) state.layer = data.opens;
  if (!data.averages[state.view]) state.view = "layer";
  if (!data.heads?.read[state.layer][state.head]) state.head = null;
  writeFacts();
  if (!same) writePrompt();
  markCut();
  writeControls();
  writeCuts();
  writeHeads();
  draw();
}

listen();
if (data.texts) show(data);
