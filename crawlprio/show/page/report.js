"use strict";

// Tables: a click on a heading sorts by its column, a second one the other way round.
for (const table of document.querySelectorAll("table")) {
  const headings = [...table.querySelectorAll("thead th")];
  headings.forEach((heading, column) => {
    heading.querySelector("button").addEventListener("click", () => {
      const isNumber = heading.classList.contains("number");
      const before = heading.getAttribute("aria-sort");
      const falls = before ? before === "ascending" : isNumber;
      const key = (row) => {
        const cell = row.cells[column];
        return isNumber ? Number(cell.dataset.value) : cell.textContent.trim();
      };
      const compare = isNumber ? (a, b) => key(a) - key(b) || 0 : (a, b) => key(a).localeCompare(key(b));
      const rows = [...table.tBodies[0].rows].sort((a, b) => (falls ? compare(b, a) : compare(a, b)));
      table.tBodies[0].append(...rows);
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", falls ? "descending" : "ascending");
    });
  });
}

// Charts: drawn by Bokeh, in the colours of the page.
const isDark = window.matchMedia("(prefers-color-scheme: dark)");

function recolour() {
  document.body.dataset.scheme = isDark.matches ? "dark" : "light";
  const of = getComputedStyle(document.documentElement);
  const [ink, faint, rule] = ["--ink", "--faint", "--rule"].map((name) => of.getPropertyValue(name).trim());
  for (const drawn of Bokeh.documents) {
    for (const model of drawn.all_models) {
      const set = (names, colour) => {
        for (const name of names) if (name in model.properties) model[name] = colour;
      };
      if (model.properties.major_label_text_color) {
        set(["major_label_text_color", "axis_label_text_color"], ink);
        set(["axis_line_color", "major_tick_line_color", "minor_tick_line_color"], faint);
      }
      set(["grid_line_color"], rule);
      set(["label_text_color"], ink);
      if (model.tags.includes("ink")) set(["line_color", "text_color"], ink);
      for (const [scheme, colour] of model.tags.map((tag) => tag.split(" "))) {
        if (scheme === document.body.dataset.scheme) set(["line_color"], colour);
      }
    }
  }
}

async function draw() {
  for (const [name, item] of Object.entries(JSON.parse(document.getElementById("figures").textContent))) {
    await Bokeh.embed.embed_item(item, `chart-${name}`);
  }
  recolour();
  isDark.addEventListener("change", recolour);
  requestAnimationFrame(() => requestAnimationFrame(() => { document.body.dataset.drawn = "yes"; }));
}

draw();
