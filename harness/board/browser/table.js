// The table: encoders in rows, scores in columns, what encoders cost at the end.
const COSTS = [
  { id: "cost:speed", text: "sentences/s", of: (cost) => cost.speed?.[0], print: figure, needsAlike: true },
  { id: "cost:size", text: "on disk", of: (cost) => cost.size, print: size },
  { id: "cost:bytes", text: "bytes a vector", of: (cost) => cost.bytes, print: count },
];
const opened = new Set();

const rankColumn = () =>
  !state.task && !state.lang && !state.all && Object.keys(overallRanks().by_encoder).length
    ? { id: "rank", isRank: true }
    : null;

function sortKey(encoder, id, columns) {
  if (id === "name") return encoder.name.toLowerCase();
  if (id === "rank") return rankOf(encoder)?.[0];
  const cost = COSTS.find((one) => one.id === id);
  if (cost)
    return cost.id === "cost:bytes" && encoder.reduced ? encoder.reduced[2] : encoder.cost && cost.of(encoder.cost);
  const column = columns.find((one) => one.id === id);
  const value = column?.of.get(encoder.place)?.value;
  return value != null && isDifference(column) ? Math.abs(value) : value; // the nearest to zero first
}

// The score that was chosen above, by which rows stand until a head is pressed; none where the overall rank counts.
const chosenScore = () => (state.set || !rankColumn() ? focus() : null);

// By which column rows stand, and whether the lowest comes first.
function order(columns) {
  const first = chosenScore()?.id ?? (rankColumn() ? "rank" : (columns[0]?.id ?? "name"));
  const known = ["name", "rank", ...COSTS.map((cost) => cost.id), ...columns.map((column) => column.id)];
  const id = known.includes(state.sort) && (state.sort !== "rank" || rankColumn()) ? state.sort : first;
  const isUsuallyUp =
    ["rank", "name", "cost:size", "cost:bytes"].includes(id) ||
    columns.some((column) => column.id === id && isDifference(column));
  return { id, isUp: state.sort === id && state.up ? state.up === "1" : isUsuallyUp };
}

function compare(a, b, isUp) {
  if (a == null || b == null) return (a == null) - (b == null); // what is missing comes last either way
  const difference = typeof a === "string" ? (a < b ? -1 : Number(a > b)) : a - b;
  return isUp ? difference : -difference;
}

function sorted(encoders, columns) {
  const { id, isUp } = order(columns);
  return encoders
    .map((encoder) => [sortKey(encoder, id, columns), encoder])
    .sort(([a, x], [b, y]) => compare(a, b, isUp) || (x.name < y.name ? -1 : 1))
    .map(([, encoder]) => encoder);
}

// A head that sorts: its name, an arrow, and smaller lines below.
function sortHead(id, columns, attributes, names, lines = []) {
  const now = order(columns);
  const isSorted = now.id === id;
  const press = () => {
    const isUp = isSorted ? !now.isUp : null;
    change({ sort: id, up: isUp === null ? "" : isUp ? "1" : "0" }, "sort");
  };
  return element(
    "th",
    {
      scope: "col",
      ...attributes,
      "data-sort": id,
      "aria-sort": isSorted ? (now.isUp ? "ascending" : "descending") : null,
    },
    element(
      "button",
      { type: "button", onclick: press },
      ...names,
      element("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (now.isUp ? " \u2191" : " \u2193") : ""),
      ...lines.filter(Boolean).map((line) => element("small", {}, line)),
    ),
  );
}

function head(columns) {
  const chosen = chosenScore();
  const groups = [];
  for (const column of columns) {
    if (groups.at(-1)?.task === column.task) groups.at(-1).n += 1;
    else groups.push({ task: column.task, n: 1 });
  }
  const rank = rankColumn();
  const several = (column) =>
    columns.some((other) => other !== column && other.task === column.task && other.metric !== column.metric) ||
    column.kind !== "score";
  const top = element(
    "tr",
    {},
    sortHead("name", columns, { class: "name", rowspan: 2 }, ["encoder"]),
    rank && sortHead("rank", columns, { class: "number", rowspan: 2 }, ["overall rank"]),
    ...groups.map((group) =>
      element("th", { class: "group", scope: "colgroup", colspan: group.n }, taskOf[group.task].title),
    ),
    element("th", { class: "group", scope: "colgroup", colspan: COSTS.length }, "Cost"),
  );
  const second = element(
    "tr",
    {},
    ...columns.map((column) =>
      sortHead(column.id, columns, { class: column === chosen ? "number chosen" : "number" }, setName(column.subset), [
        several(column) && column.heading,
        column.name,
      ]),
    ),
    ...COSTS.map((cost) => sortHead(cost.id, columns, { class: "number" }, [cost.text])),
  );
  return element("thead", {}, top, second);
}

function scoreCell(column, encoder, isChosen) {
  const cell = column.of.get(encoder.place);
  const kind = isChosen ? "number chosen" : "number";
  if (!cell)
    return element(
      "td",
      { class: kind },
      element("span", { class: "plainnum missing" }, MISSING, element("span", { class: "sr" }, " not measured")),
    );
  const isBest = cell.flags & BEST;
  const text = (cell.flags & OTHER_LANGUAGE ? "\u2020" : "") + score(cell.value, column.kind);
  return element(
    "td",
    { class: isBest ? `${kind} best` : kind },
    // No `button`: thousands of them take a browser several times as long to lay out.
    element(
      "span",
      { role: "button", class: "num", tabindex: "-1", "data-cell": `${encoder.place} ${column.place}` },
      isBest ? element("b", {}, text) : text,
      isBest ? element("span", { class: "sr" }, " best, or not significantly worse") : "",
      cell.low != null && element("small", {}, interval(cell, column.kind)),
    ),
  );
}

// What a pointer that rests on a name is told.
const licenceText = ({ licence, commercial }) =>
  licence && `${licence}${commercial === false ? ": not free for commercial use" : ""}`;
const titleOf = (encoder) => [encoder.name, licenceText(encoder)].filter(Boolean).join(", ");

function costCell(cost, encoder) {
  const of = encoder.cost;
  const value = cost.id === "cost:bytes" && encoder.reduced ? encoder.reduced[2] : of && cost.of(of);
  const isOther = value != null && of && ((cost.needsAlike && !of.alike) || !of.scores);
  return element(
    "td",
    { class: "number" },
    element(
      "span",
      { class: value == null ? "plainnum missing" : "plainnum" },
      value == null ? MISSING : cost.print(value) + (isOther ? "\u2021" : ""),
    ),
  );
}

function row(encoder, columns, n, isVariant) {
  const chosen = chosenScore();
  const isOpen = state.variants || opened.has(encoder.place);
  const fold = n
    ? element(
        "button",
        {
          type: "button",
          class: "fold",
          "aria-expanded": String(Boolean(isOpen)),
          "data-fold": encoder.place,
          "aria-label": `${n} cut and quantised vectors of ${encoder.name}`,
        },
        `${isOpen ? "\u25be" : "\u25b8"} ${n}`,
      )
    : "";
  const rank = rankColumn() && (rankOf(encoder) ?? []);
  return element(
    "tr",
    { class: isVariant ? "variant" : null, "data-encoder": encoder.place },
    element(
      "th",
      { scope: "row" },
      element(
        "span",
        { class: "encoder" },
        element(
          "button",
          { type: "button", class: "name", "data-encoder": encoder.place, title: titleOf(encoder) },
          encoder.name,
        ),
        fold,
      ),
      encoder.floor && !isVariant ? element("span", { class: "floor" }, "lexical floor") : "",
    ),
    rank &&
      element(
        "td",
        { class: "number" },
        element(
          "span",
          { class: "plainnum" },
          rank.length ? fixed(rank[0], 1) : MISSING,
          rank.length ? element("small", {}, `[${fixed(rank[1], 1)}, ${fixed(rank[2], 1)}]`) : "",
        ),
      ),
    ...columns.map((column) => scoreCell(column, encoder, column === chosen)),
    ...COSTS.map((cost) => costCell(cost, encoder)),
  );
}

// A browser lays out the whole table after a sort: of hundreds of encoders the first ones are shown, and a button has
// the others.
const AT_ONCE = 50;
let isWhole = false;
let body = null;
let rows = new Map();

// The rows of the first encoders in their order, each made once.
function orderedRows(columns, { roots, variants }) {
  const shown = isWhole ? roots.length : AT_ONCE;
  return sorted(roots, columns)
    .slice(0, shown)
    .flatMap((encoder) => {
      if (!rows.has(encoder.place)) {
        const of = variants.get(encoder.place) ?? [];
        const isOpen = state.variants || opened.has(encoder.place);
        rows.set(encoder.place, [
          row(encoder, columns, of.length, !isFull(encoder)),
          ...(isOpen ? of.map((one) => row(one, columns, 0, true)) : []),
        ]);
      }
      return rows.get(encoder.place);
    });
}

function showRows(columns, encoders) {
  body.replaceChildren(...orderedRows(columns, encoders));
  body.querySelectorAll('.num[tabindex="0"]').forEach((number) => number.setAttribute("tabindex", "-1"));
  body.querySelector(".num")?.setAttribute("tabindex", "0");
  const rest = isWhole ? 0 : Math.max(0, encoders.roots.length - AT_ONCE);
  $("rest").hidden = !rest;
  $("rest").textContent = `Show ${rest} more`;
}

function drawTable() {
  const { columns } = shownColumns();
  const encoders = shownEncoders(columns);
  const focused = document.activeElement?.closest?.("#table [data-sort]")?.dataset.sort;
  rows = new Map();
  body = element("tbody");
  const table = element(
    "table",
    { class: "scores" },
    element("caption", { class: "sr" }, "Scores of encoders"),
    head(columns),
    body,
  );
  showRows(columns, encoders);
  fill("table", box("Table of scores", table));
  table.style.setProperty("--head", table.tHead.rows[0].getBoundingClientRect().height + "px");
  focusHead(table, focused);
  drawLegend(columns, encoders);
}

// Sorting moves rows, and draws the heads again.
function sortTable() {
  const { columns } = shownColumns();
  const table = body.parentNode;
  const focused = document.activeElement?.closest?.("#table [data-sort]")?.dataset.sort;
  showRows(columns, shownEncoders(columns));
  table.replaceChild(head(columns), table.tHead);
  focusHead(table, focused);
}

function focusHead(table, id) {
  if (id)
    [...table.querySelectorAll("[data-sort]")]
      .find((th) => th.dataset.sort === id)
      ?.querySelector("button")
      .focus();
}

function drawLegend(columns, { roots, variants }) {
  const { isShort } = shownColumns();
  const several = (n, what) => n && `${n} ${what}${n === 1 ? "" : "s"}`;
  const number = (found) => new Set(found.map((column) => column.task + "/" + column.subset)).size;
  const averages = columns.filter((column) => column.average);
  const counted = [
    several(number(averages), "average"),
    several(number(columns.filter((column) => !column.average)), "set"),
  ].filter(Boolean);
  const total = data.encoders.filter(isFull).length;
  const full = roots.filter(isFull).length;
  const cut = roots.length - full + [...variants.values()].flat().length;
  const parts = [`${full} of ${total} ${total === 1 ? "encoder" : "encoders"}`];
  if (cut) parts.push(`${cut} cut or quantised ${cut === 1 ? "one" : "ones"}`);
  parts.push(counted.join(" and ") || "no set");
  if (isShort)
    parts.push(
      state.task
        ? "no single sets; choose a language, or all sets"
        : "one summary score per task; choose a task or a language for more",
    );
  $("all-label").hidden = !isShort && !state.all;
  $("shown").textContent = parts.join(", ") + ".";
  const flags = columns.flatMap((column) => column.cells.map((cell) => cell.flags)).reduce((a, b) => a | b, 0);
  const tags = [...new Set(columns.map((column) => column.tag).filter(Boolean))];
  const isBest = flags & BEST;
  const levels = levelsOf(columns);
  const closed = roots
    .filter((encoder) => encoder.commercial === false)
    .map(({ name, licence }) => `${name} (${licence})`);
  $("key").replaceChildren(
    ...[
      isBest && element("span", { class: "swatch" }, "best"),
      isBest && ": the best, or not significantly worse. ",
      levels && `[low, high]: ${levels} interval. `,
      flags & OTHER_LANGUAGE && "\u2020: the encoder was not made for this language. ",
      closed.length && `Not free for commercial use, by the licence of the weights: ${closed.join(", ")}. `,
      "Click a number for the command that repeats it.",
    ].filter(Boolean),
  );
  const ranked = overallRanks().columns;
  const alphas = [...new Set(columns.map(alphaOf))].join(" or ");
  const texts = [
    isBest &&
      `Marked: the best, and all that are not significantly worse than it (paired randomisation test, p \u2265 ${alphas}, Holm over all encoders of the column, also those that a filter hides).`,
    levels && `[low, high]: ${levels} interval (BCa bootstrap of the items). Scores are x 100.`,
    rankColumn() &&
      `Overall rank: the mean of the ranks in ${ranked.length} ${ranked.length === 1 ? "column" : "columns"} (${ranked.join(", ")}), of the encoders that have them all; its intervals hold for all at once.`,
    flags & OTHER_LANGUAGE && "\u2020 On a language that the encoder was not made for; an average, on one or more.",
    ...tags.map((tag) => `${tag}: ${data.tags[tag]}.`),
    ...[...new Map(averages.map((column) => [column.task + column.subset, column])).values()].map(averageText),
    columns.some((column) => column.heading.includes("src->trg")) &&
      "src->trg: from the first language of the pairs to the second; trg->src: back.",
    columns.some(isDifference) &&
      "Language-bias differences are not ranked: higher is not better. Sorted, the nearest to zero comes first.",
    data.costs.setup &&
      `Speed: texts of two sentences, many at a time, on ${data.costs.setup}.` +
        (roots.some((e) => e.cost && !(e.cost.alike && e.cost.scores))
          ? " \u2021 Measured on another machine, or of other weights."
          : ""),
    "Arrow keys go from number to number, Enter opens one. Downloads have what the table shows, scores with four decimals.",
  ];
  fill("legend", ...texts.filter(Boolean).map((text) => element("li", {}, text)));
}

// What an average is of; its languages if they are few, less English where each set is on that and another one.
const LISTED = 12;
function averageText(column) {
  const { parts } = recordOf(column.cells[0].record, column);
  const others = column.languages.filter((code) => code !== "en");
  const codes = others.length === parts ? others : column.languages;
  const list = codes.length <= LISTED ? ` (${codes.map(languageName).join(", ")})` : "";
  const languages = codes.length && `, on ${codes.length} language${codes.length === 1 ? "" : "s"}${list}`;
  return `${taskOf[column.task].title} ${column.subset}: the average over ${parts} set${parts === 1 ? "" : "s"}${languages || ""}.`;
}

// Arrow keys in the table, as in a spreadsheet; Enter and the space bar open a number.
function moveInTable(event) {
  if ((event.key === "Enter" || event.key === " ") && event.target.matches?.(".num")) {
    event.preventDefault();
    event.target.click();
    return;
  }
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  const from = event.target.closest?.(".num");
  if (!step || !from) return;
  const cell = from.closest("td");
  let [tr, place] = [cell.parentNode, cell.cellIndex];
  for (;;) {
    if (step[0]) tr = step[0] > 0 ? tr.nextElementSibling : tr.previousElementSibling;
    place += step[1];
    const next = tr?.cells[place];
    if (!next) return;
    const button = next.querySelector(".num");
    if (button) {
      from.setAttribute("tabindex", "-1");
      button.setAttribute("tabindex", "0");
      button.focus();
      event.preventDefault();
      return;
    }
  }
}
