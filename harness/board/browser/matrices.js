// Tables that are square: pairs of encoders on the chosen score, and what joining two sets costs.
const SHOWN = 30;

function drawPairs() {
  const column = focus();
  const tests = column && data.pairs[column.place];
  $("pairs").hidden = !tests;
  if (!tests) return;
  const cells = ranking(column).filter((cell) => tests.of.includes(cell.encoder));
  const shown = cells.slice(0, SHOWN);
  const name = (cell) => data.encoders[cell.encoder].name;
  const made = (a, b) => {
    if (a === b) return element("td", { class: "told" }, "");
    const value = pairP(column, a.encoder, b.encoder);
    return element(
      "td",
      { class: value == null ? "" : value < data.alpha ? "apart" : "told" },
      fixed(a.value - b.value, 1, true),
      element("small", {}, value == null ? "not tested" : p(value)),
    );
  };
  const heads = element(
    "tr",
    {},
    element("th", { class: "name", scope: "col" }, "better by"),
    ...shown.map((cell) => element("th", { scope: "col" }, name(cell))),
  );
  const lines = shown.map((a) =>
    element("tr", {}, element("th", { scope: "row" }, name(a)), ...shown.map((b) => made(a, b))),
  );
  const more = cells.length > SHOWN ? ` The ${SHOWN} highest of ${cells.length}.` : "";
  $("pairs-note").textContent =
    `${column.label}: the row's score minus the column's. Coloured: told apart (p < ${data.alpha}, Holm over all ${tests.n} pairs of this score, so stricter than the marks in the table; filters change nothing).${more}`;
  fill(
    "pairs-table",
    box(
      "Pairs of encoders",
      element("table", { class: "matrix" }, element("thead", {}, heads), element("tbody", {}, ...lines)),
    ),
  );
}

// Orange below, blue above (ColorBrewer's PuOr and RdBu), as on the pages; text has the better contrast of black and white.
function paint(cell, share) {
  const [end, weight] = [share < 0 ? [179, 88, 6] : [33, 102, 172], Math.min(Math.abs(share), 1)];
  const colour = end.map((channel) => Math.round(247 + weight * (channel - 247)));
  const linear = colour.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  cell.style.background = `rgb(${colour})`;
  cell.style.color = (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) ? "#000" : "#fff";
  return cell;
}
const COST_LIMIT = 10,
  SHIFT_LIMIT = 20;

function heat({ sets, cost, shift, encoder }) {
  const heads = element(
    "tr",
    {},
    element("th", { class: "name", scope: "col" }, "joined with"),
    ...sets.map((set) => element("th", { scope: "col" }, ...setName(set))),
    element("th", { scope: "col" }, "shift"),
  );
  const lines = sets.map((set, i) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, ...setName(set)),
      ...sets.map((_, j) =>
        i === j
          ? element("td", { class: "none" }, "")
          : paint(element("td", { class: "number" }, fixed(cost[i][j], 1, true)), cost[i][j] / COST_LIMIT),
      ),
      paint(element("td", { class: "number" }, fixed(shift[i], 1, true)), shift[i] / SHIFT_LIMIT),
    ),
  );
  const name = data.encoders[encoder].name;
  return element(
    "article",
    {},
    element("h3", {}, name),
    box(
      `Language bias of ${name}`,
      element("table", { class: "heat" }, element("thead", {}, heads), element("tbody", {}, ...lines)),
    ),
  );
}

function drawBiases() {
  const columns = new Set(ofData().map((column) => `${column.task}/${column.subset}`));
  const found = data.biases.find((bias) => columns.has(`${bias.task}/${bias.group}`));
  $("bias").hidden = !found;
  if (!found) return;
  const names = found.of.map((one) => data.encoders[one.encoder].name);
  const chosen = chosenNames(names, 2);
  chooser("bias-choice", names, chosen);
  fill("bias-tables", ...found.of.filter((one) => chosen.includes(data.encoders[one.encoder].name)).map(heat));
}

// The encoders that charts and heat maps set side by side: those of the address, else the first ones.
function chosenNames(names, n) {
  const asked = state.compared.split(",").filter((name) => names.includes(name));
  return asked.length ? asked : names.slice(0, n);
}

function chooser(where, names, chosen) {
  const flip = (name) => {
    const left = chosen.includes(name) ? chosen.filter((other) => other !== name) : [...chosen, name];
    change({ compared: left.join(",") }, "compared");
  };
  fill(
    where,
    ...names.map((name) =>
      element(
        "label",
        { class: "check" },
        element("input", { type: "checkbox", checked: chosen.includes(name), onchange: () => flip(name) }),
        name,
      ),
    ),
  );
}
