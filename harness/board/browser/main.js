// From a choice to the page and its address, and back.
const FIRST = [drawChoice, drawAnswers, drawVerdicts, drawTable];
const LATER = [drawPairs, drawBiases, drawCharts];
const PARTS = {
  sort: [sortTable],
  compared: [drawLanguages],
  biases: [drawBiases],
  within: [drawAnswers],
  pair: [drawAnswers, drawLanguages],
  find: [drawTable],
  rows: [drawTable],
  focus: [drawAnswers, drawTable, drawPairs, drawCharts],
  all: [...FIRST, ...LATER],
};

function change(changes, what = "all") {
  Object.assign(state, changes);
  if (what === "all") dropLanguage();
  writeAddress();
  PARTS[what].forEach((draw) => draw());
}

function useTheme() {
  if (state.theme) document.documentElement.dataset.theme = state.theme;
  else delete document.documentElement.dataset.theme;
  $("theme").setAttribute("aria-label", state.theme ? `Colours: ${state.theme}` : "Colours: as the system has them");
}
const isDark = () =>
  (state.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function drawAll(parts = PARTS.all) {
  useTheme();
  for (const name of ["find", "within"]) $(name).value = state[name];
  for (const name of ["variants", "metrics", "all"]) $(name).checked = Boolean(state[name]);
  parts.forEach((draw) => draw());
}

const on = (id, event, act) => $(id).addEventListener(event, act);
on("task", "change", (event) => change({ task: event.target.value, set: "", sort: "", up: "" }));
on("lang", "change", (event) => change({ lang: event.target.value, sort: "", up: "" }));
on("data-kind", "change", (event) => change({ sample: event.target.value, task: "", lang: "", set: "" }));
on("set", "change", (event) => change({ set: event.target.value }, "focus"));
// What is no number of points is taken for the usual one, which then stands in the box.
on("within", "input", (event) => {
  const isNumber = parseFloat(event.target.value) >= 0;
  change({ within: isNumber ? event.target.value : DEFAULTS.within }, "within");
});
on("within", "change", (event) => {
  event.target.value = state.within;
});
on("first", "change", (event) => change({ first: event.target.value, second: $("second").value }, "pair"));
on("second", "change", (event) => change({ first: $("first").value, second: event.target.value }, "pair"));
on("find", "input", (event) => change({ find: event.target.value }, "find"));
on("variants", "change", (event) => {
  opened.clear();
  change({ variants: event.target.checked ? "1" : "" }, "rows");
});
on("metrics", "change", (event) => change({ metrics: event.target.checked ? "1" : "" }));
on("all", "change", (event) => change({ all: event.target.checked ? "1" : "" }));
on("csv", "click", () => download("board.csv", "text/csv", csv(entries())));
on("json", "click", () => download("board.json", "application/json", JSON.stringify(entries(), null, 1) + "\n"));
on("theme", "click", () => {
  state.theme = isDark() ? "light" : "dark";
  writeAddress();
  useTheme();
  colourCharts();
});
// The skip link moves the focus; the address holds what is chosen, and stays.
on("skip", "click", (event) => {
  event.preventDefault();
  $("scores").focus();
});
on("choose", "submit", (event) => event.preventDefault());
on("rest", "click", () => {
  isWhole = true;
  sortTable();
});
on("table", "keydown", moveInTable);
on("table", "click", (event) => {
  const target = event.target.closest("button, .num");
  if (!target) return;
  if (target.dataset.cell) {
    const [encoder, column] = target.dataset.cell.split(" ").map(Number);
    showNumber(data.encoders[encoder], data.columns[column]);
  } else if (target.dataset.fold) {
    const place = Number(target.dataset.fold);
    if (!opened.delete(place)) opened.add(place);
    drawTable();
    document.querySelector(`[data-fold="${place}"]`)?.focus();
  } else if (target.dataset.encoder) showEncoder(data.encoders[Number(target.dataset.encoder)]);
});
on("details", "click", (event) => {
  if (event.target === $("details")) $("details").close();
});
addEventListener("charts", drawCharts);
addEventListener("hashchange", () => {
  if (location.hash.length > 1 && !location.hash.includes("=")) return; // a place on the page
  readAddress();
  drawAll();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", colourCharts);
for (const [event, value] of [
  ["beforeprint", true],
  ["afterprint", false],
])
  addEventListener(event, () => {
    isPrinted = value;
    colourCharts();
  });

document.querySelectorAll(".js").forEach((part) => {
  part.hidden = false;
});
// What is looked at first is painted before the rest is drawn; and the library of the charts is inert text (whose hash
// the policy knows) until all that needs none is there.
function drawRest() {
  LATER.forEach((draw) => draw());
  performance.mark("usable"); // for benchmarks/board.py
  const library = $("library");
  if (library) setTimeout(() => document.body.append(element("script", { type: "module" }, library.textContent)));
}
readAddress();
drawAll(FIRST);
requestAnimationFrame(() => setTimeout(drawRest));
