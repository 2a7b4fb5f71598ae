// What people ask first, answered from the chosen score; and a sentence for every score that is shown.
const MANY = 12;

function drawChoice() {
  const columns = ofData();
  const tasks = data.tasks.filter((task) => columns.some((column) => column.task === task.name));
  options($("task"), [["", "all tasks"], ...tasks.map((task) => [task.name, task.title])], state.task);
  const ofTask = columns.filter((column) => !state.task || column.task === state.task);
  const codes = [...new Set(ofTask.flatMap((column) => column.languages))].filter((code) =>
    ofTask.some((column) => isOn(column, code)),
  );
  if (state.lang && !codes.includes(state.lang)) codes.push(state.lang);
  const entries = codes
    .map((code) => [code, `${languageName(code)} (${code})`])
    .sort((a, b) => a[1].localeCompare(b[1], "en"));
  options($("lang"), [["", "all languages"], ...entries], state.lang);
  const ranked = shownColumns().columns.filter((column) => column.ranked);
  options(
    $("set"),
    ranked.map((column) => [column.id, column.label + (column.name ? ` (${column.name})` : "")]),
    focus()?.id ?? "",
  );
  $("data-label").hidden = !(hasReal && hasSample);
  $("data-kind").value = state.sample;
}

function drawAnswers() {
  const column = focus();
  if (!column) {
    for (const id of ["best", "cheap", "real"]) fill(id, element("p", {}, "Nothing is measured on this choice."));
    return;
  }
  const [leader] = ranking(column);
  const best = ranking(column)
    .filter((cell) => cell.flags & BEST)
    .map((cell) => data.encoders[cell.encoder].name);
  const few = best.length > 3 ? [...best.slice(0, 3), `${best.length - 3} more`] : best;
  const heading =
    best.length > 1 ? `${few.slice(0, -1).join(", ")} or ${few.at(-1)}` : data.encoders[leader.encoder].name;
  fill(
    "best",
    element("p", { class: "big" }, heading),
    element(
      "p",
      {},
      `${score(leader.value, column.kind)} `,
      element("small", {}, interval(leader, column.kind)),
      ` on ${column.label}`,
      column.name && ` (${column.name})`,
    ),
    element("p", { class: "said" }, ...sentence(column.verdict ?? "")),
  );
  drawCheapest(column, leader);
  drawPair(column);
}

function drawCheapest(column, leader) {
  const within = parseFloat(state.within);
  const near = [...column.of.values()]
    .filter((cell) => leader.value - cell.value <= within + 1e-9)
    .map((cell) => ({ ...cell, of: data.encoders[cell.encoder] }));
  const alike = near.filter((cell) => cell.of.cost?.alike && cell.of.cost.scores && cell.of.cost.speed);
  const sized = near.filter((cell) => cell.of.cost?.scores && cell.of.cost.size != null);
  const bytes = (cell) => cell.of.reduced?.[2] ?? (cell.of.cost?.scores ? cell.of.cost.bytes : null);
  const short = near.filter((cell) => bytes(cell) != null);
  const least = (cells, by) => cells.length && cells.reduce((a, b) => (by(b) < by(a) ? b : a));
  const line = (what, cell, text) =>
    cell
      ? [
          element("dt", {}, what),
          element(
            "dd",
            {},
            element("strong", {}, cell.of.name),
            ` ${text}`,
            cell.value < leader.value ? `, ${fixed(leader.value - cell.value, 1)} below` : ", the highest",
          ),
        ]
      : [];
  const fastest = least(alike, (cell) => -cell.of.cost.speed[0]);
  const smallest = least(sized, (cell) => cell.of.cost.size);
  const shortest = least(short, bytes);
  const parts = [
    ...line("fastest", fastest, fastest && `${count(fastest.of.cost.speed[0])} sentences/s`),
    ...line("smallest", smallest, smallest && size(smallest.of.cost.size)),
    ...line("shortest vectors", shortest, shortest && `${count(bytes(shortest))} bytes`),
  ];
  const n = near.filter((cell) => cell.of.base == null).length;
  fill(
    "cheap",
    parts.length
      ? element("dl", { class: "cheap" }, ...parts)
      : element("p", {}, ...withCode("What these cost is not known; `leaderboard speed` measures it.")),
    element(
      "p",
      { class: "notes" },
      `${n} ${n === 1 ? "encoder has" : "encoders have"} ${score(leader.value - within, column.kind)} or more on ${column.label}.`,
    ),
  );
}

function drawPair(column) {
  const cells = ranking(column);
  const names = cells.map((cell) => data.encoders[cell.encoder].name);
  const first = names.includes(state.first) ? state.first : names[0];
  const second =
    names.includes(state.second) && state.second !== first
      ? state.second
      : (names.find((name) => name !== first) ?? "");
  options(
    $("first"),
    names.map((name) => [name, name]),
    first,
  );
  options(
    $("second"),
    names.map((name) => [name, name]),
    second,
  );
  const [a, b] = [first, second].map((name) => cells[names.indexOf(name)]);
  if (!b) return fill("real", element("p", {}, "There is nothing to compare it with."));
  const difference = a.value - b.value;
  // Against the highest the test is that of the sentences and marks: fewer tests are corrected together.
  const [leader] = cells;
  const other = a === leader ? b : b === leader ? a : null;
  const value = other ? other.p : pairP(column, a.encoder, b.encoder);
  const isReal = value != null && value < data.alpha;
  const tag =
    value == null
      ? element("span", { class: "tag no" }, "Not tested")
      : isReal
        ? element("span", { class: "tag yes" }, "Yes")
        : element("span", { class: "tag no" }, "Cannot be told");
  const better = difference >= 0 ? first : second;
  const said = isReal
    ? [element("strong", {}, better), ` is better by ${fixed(Math.abs(difference), 1)} points (${p(value)})`]
    : [`${fixed(Math.abs(difference), 1)} points between them`, value == null ? "" : ` (${p(value)})`];
  const among = other
    ? `${cells.filter((cell) => cell.p != null).length} encoders that were held against the highest`
    : `${data.pairs[column.place]?.n} pairs of this score`;
  return fill(
    "real",
    element("p", {}, tag, " ", ...said, ` on ${column.label}.`),
    element(
      "p",
      { class: "notes" },
      value == null
        ? "The results hold no test of these two on this."
        : `Paired randomisation test, corrected by Holm over the ${among}.`,
    ),
  );
}

function drawVerdicts() {
  const { columns } = shownColumns();
  const said = columns.filter((column) => column.verdict);
  const lines = said
    .slice(0, MANY)
    .flatMap((column) => [
      element("dt", {}, column.label, column.name && ` (${column.name})`),
      element("dd", {}, ...sentence(column.verdict)),
    ]);
  fill(
    "verdicts",
    ...(lines.length
      ? lines
      : [element("dt", {}, "\u2013"), element("dd", {}, "Nothing that ranks encoders is measured on this choice.")]),
  );
  $("more-verdicts").hidden = said.length <= MANY;
  $("more-verdicts").textContent = `And ${said.length - MANY} more scores: choose a language, or one score above.`;
}
