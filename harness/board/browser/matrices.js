// Tables that are square: pairs of encoders on the chosen score, and what joining two sets costs.
const SHOWN = 30;

function drawPairs() {
  const column = focus();
  const tests = column && data.pairs[column.place];
  $("pairs").hidden = !tests;
  if (!tests) return;
  const cells = ranking(column);
  const shown = cells.slice(0, SHOWN);
  const name = (cell) => data.encoders[cell.encoder].name;
  const made = (i, j) => {
    if (i === j) return element("td", { class: "told" }, "");
    const value = pairP(column, cells.length, i, j);
    return element(
      "td",
      { class: value == null || value >= alphaOf(column) ? "told" : i < j ? "better" : "worse" },
      fixed(cells[i].value - cells[j].value, 1, true),
      element("small", {}, value == null ? "not tested" : p(value)),
    );
  };
  const heads = element(
    "tr",
    {},
    element("th", { class: "name", scope: "col" }, "row minus column"),
    ...shown.map((cell) => element("th", { scope: "col" }, name(cell))),
  );
  const lines = shown.map((cell, i) =>
    element("tr", {}, element("th", { scope: "row" }, name(cell)), ...shown.map((_, j) => made(i, j))),
  );
  const more = cells.length > SHOWN ? ` The ${SHOWN} highest of ${cells.length}.` : "";
  $("pairs-note").textContent =
    `${column.label}: the row's score minus the column's. Green: the row is better; orange: it is worse (p < ${alphaOf(column)}); grey: they cannot be told apart, or were not tested. These p are corrected by Holm over all ${tests.n} pairs of this score, those of the card above over the tests against the highest alone, so the same pair may have a smaller p there.${more}`;
  fill(
    "pairs-table",
    box(
      "Pairs of encoders",
      element("table", { class: "matrix" }, element("thead", {}, heads), element("tbody", {}, ...lines)),
    ),
  );
}

// A number in its colours.
function painted([value, paint]) {
  const cell = element("td", { class: "number" }, fixed(value, 1, true));
  const [light, ink, dark, darkInk] = data.biases.paints[paint];
  cell.style.background = `light-dark(${light}, ${dark})`;
  cell.style.color = `light-dark(${ink}, ${darkInk})`;
  return cell;
}

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
      ...sets.map((_, j) => (i === j ? element("td", { class: "none" }, "") : painted(cost[i][j]))),
      painted(shift[i]),
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
  const found = data.biases.groups.find((group) => columns.has(`${group.task}/${group.group}`));
  $("bias").hidden = !found;
  if (!found) return;
  const names = found.matrices.map((one) => data.encoders[one.encoder].name);
  const chosen = chooser("bias", names, names.slice(0, 2), "biases");
  fill("bias-tables", ...found.matrices.filter((one) => chosen.includes(data.encoders[one.encoder].name)).map(heat));
}

// Boxes by which encoders are set side by side, in `${where}-choice`; those that are: of the address (in the state's
// `key`), else the `first` ones. The boxes stay, so that the one that was pressed keeps the keyboard's focus.
const NOBODY = ",";
function chooser(where, names, first, key) {
  const boxes = () => [...$(`${where}-choice`).querySelectorAll("input")];
  const asked = state[key].split(",").filter((name) => names.includes(name));
  const chosen = asked.length || state[key] === NOBODY ? asked : first;
  const press = () => {
    const pressed = boxes().filter((one) => one.checked);
    change({ [key]: pressed.map((one) => one.value).join(",") || NOBODY }, key);
  };
  if (boxes().length !== names.length || boxes().some((one, place) => one.value !== names[place]))
    fill(
      `${where}-choice`,
      ...names.map((name) =>
        element(
          "label",
          { class: "check" },
          element("input", { type: "checkbox", value: name, onchange: press }),
          name,
        ),
      ),
    );
  for (const one of boxes()) one.checked = chosen.includes(one.value);
  $(`${where}-none`).hidden = chosen.length > 0;
  return chosen;
}
