"use strict";

const by = (id) => document.getElementById(id);
const STATES = {
  running: "Running", paused: "Paused: no page is fetched", ending: "Ending: fetches in flight end",
  ended: "Ended", lost: "The crawl does not answer",
};

// The token comes behind the #, which no browser sends. It stays in this tab, out of the address.
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", "/");
}
const token = sessionStorage.getItem("token");
let isOver = false;

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function show(state) {
  by("state").dataset.state = state;
  write(by("state"), STATES[state]);
  by("pause").hidden = state !== "running";
  by("resume").hidden = state !== "paused";
  by("stop").hidden = !["running", "paused"].includes(state);
  by("controls").hidden = !token || isOver || state === "ending";
  by("readonly").hidden = Boolean(token) || isOver;
}

async function ask(path, asked) {
  const headers = { "Content-Type": "application/json", "X-Crawlprio-Token": token };
  try {
    const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(asked || {}) });
    const answer = await response.json();
    if (!isOver) write(by("said"), answer.said || answer.error || "");
    return answer;
  } catch {
    if (!isOver) write(by("said"), "The crawl does not answer.");
    return {};
  }
}

async function explain(url) {
  write(by("said"), "Reading the visits ...");
  const answer = await ask("/explain", { url });
  if (answer.lines) {
    write(by("lines"), answer.lines.join("\n"));
    by("why").showModal();
  }
}

// Tables: rows are reused, so that nothing flickers and no focus is lost.
function fillCell(td, cell) {
  const [text, url] = Array.isArray(cell) ? cell : [cell, ""];
  let inner = td.firstElementChild;
  if (!inner || (inner.tagName === "A") !== Boolean(url)) {
    inner = document.createElement(url ? "a" : "bdi");
    if (url) {
      inner.append(document.createElement("bdi"));
      inner.rel = "noopener noreferrer";
      inner.target = "_blank";
    }
    td.replaceChildren(inner);
  }
  if (url && inner.href !== url) inner.href = url;
  write(url ? inner.firstElementChild : inner, text);
}

function button(label, row, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = label;
  made.addEventListener("click", () => act(row.dataset.url));
  return made;
}

function fill(name, rows) {
  const table = by(name), body = table.tBodies[0];
  const numbers = [...table.tHead.rows[0].cells].map((th) => th.className);
  const isNext = name === "next";
  if (isNext && table.matches(":hover, :focus-within") && rows.length && !isOver) return;
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, at) => {
    const row = body.rows[at] || body.insertRow();
    while (row.cells.length < numbers.length) row.insertCell().className = numbers[row.cells.length - 1];
    cells.forEach((cell, column) => fillCell(row.cells[column], cell));
    if (!isNext) return;
    const url = (cells[0][1]) || "", last = row.cells[numbers.length - 1];
    row.dataset.url = url;
    const names = url && token && !isOver ? ["Why?", "First"] : [];
    if (last.children.length !== names.length) {
      last.replaceChildren(...names.map((label) => button(label, row,
        label === "Why?" ? explain : (asked) => ask("/first", { url: asked }))));
    }
    [...last.children].forEach((each) => each.setAttribute("aria-label", `${each.textContent} ${cells[0][0]}`));
  });
  const part = ["next", "workers", "latest"].includes(name) ? table.closest("section") : table.parentElement;
  part.hidden = rows.length === 0 && !isNext;
}

function fillList(list, figures) {
  list.hidden = figures.length === 0;
  while (list.children.length > figures.length) list.lastElementChild.remove();
  figures.forEach(([name, value], at) => {
    let div = list.children[at];
    if (!div) {
      div = document.createElement("div");
      div.append(document.createElement("dt"), document.createElement("dd"));
      list.append(div);
    }
    write(div.children[0], name);
    write(div.children[1], value);
  });
}

function fillWaits(waits) {
  const list = by("waits");
  while (list.children.length > waits.length) list.lastElementChild.remove();
  waits.forEach((wait, at) => {
    const item = list.children[at] || list.appendChild(document.createElement("li"));
    if (!item.firstElementChild) item.append(document.createElement("bdi"));
    write(item.firstElementChild, wait);
  });
}

const rates = [];
function draw(rate) {
  rates.push(rate);
  if (rates.length > 300) rates.shift();
  const most = Math.max(...rates, 1e-9);
  const step = 300 / Math.max(rates.length - 1, 60);
  const points = rates.map((each, at) => `${(300 - step * (rates.length - 1 - at)).toFixed(1)},${(57 - 54 * each / most).toFixed(1)}`);
  by("rates").firstElementChild.setAttribute("points", points.join(" "));
  by("rates").setAttribute("aria-label", `Pages per second: ${rate.toFixed(1)} now, ${most.toFixed(1)} at most`);
  write(by("most"), most.toFixed(1));
}

const events = new EventSource("/events");
events.addEventListener("state", (event) => {
  const seen = JSON.parse(event.data);
  write(by("of"), seen.of);
  write(by("ordering"), seen.ordering);
  show(seen.state);
  fillList(by("figures"), seen.figures);
  fillWaits(seen.waits);
  for (const name of ["next", "resting", "flight", "failing", "slow", "causes", "latest", "workers"]) {
    fill(name, seen.tables[name] || []);
  }
  by("fine").hidden = Boolean(seen.tables.failing.length + seen.tables.slow.length);
  draw(seen.rate);
  document.title = `${STATES[seen.state].split(":")[0]}: ${seen.figures.find(([name]) => name === "Fetched")[1]} pages of ${seen.of}`;
});
events.addEventListener("ended", (event) => {
  const seen = JSON.parse(event.data);
  isOver = true;
  events.close();
  show("ended");
  write(by("said"), [`The crawl has ended: ${seen.reason}.`, ...seen.said].join("\n"));
});
events.addEventListener("error", () => { if (!isOver) show("lost"); });

for (const id of ["pause", "resume"]) by(id).addEventListener("click", (event) => ask(event.target.dataset.action));
by("stop").addEventListener("click", () => { by("sure").returnValue = ""; by("sure").showModal(); });
by("sure").addEventListener("close", () => { if (by("sure").returnValue === "stop") ask("/stop"); });
by("first").addEventListener("submit", (event) => {
  event.preventDefault();
  ask("/first", { url: by("url").value }).then((answer) => { if (answer.said) by("url").value = ""; });
});
