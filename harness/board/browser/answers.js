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
  const ranked = shownColumns().columns.filter(hasLeader);
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
  const leader = column.of.get(column.leader);
  fill(
    "best",
    element("p", { class: "big" }, bestNames(column)),
    element(
      "p",
      {},
      `${score(leader.value, column.kind)} `,
      element("small", {}, interval(leader, column.kind)),
      ` on ${column.label}`,
      column.name && ` (${column.name})`,
    ),
    element("p", { class: "said" }, ...(column.verdict ? sentence(column.verdict) : [])),
  );
  drawCheapest(column, leader);
  drawPair(column);
}

// Who is called the best; where the tests call nobody that, who is the highest.
function bestNames(column) {
  const names = (column.best ?? []).map((place) => data.encoders[place].name);
  if (!names.length) return `Highest: ${data.encoders[column.leader].name}`;
  const few = names.length > 3 ? [...names.slice(0, 3), `${names.length - 3} more`] : names;
  return few.length > 1 ? `${few.slice(0, -1).join(", ")} or ${few.at(-1)}` : few[0];
}

// How far a score is from the highest; cut vectors may lie above it.
function fromHighest(cell, leader) {
  const below = leader.value - cell.value;
  if (cell.encoder === leader.encoder) return "the highest score";
  return below < 0 ? `${fixed(-below, 1)} above the highest of full vectors` : `${fixed(below, 1)} below`;
}

function drawCheapest(column, leader) {
  const within = parseFloat(state.within);
  const near = column.cells
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
          element("dd", {}, element("strong", {}, cell.of.name), ` ${text}, ${fromHighest(cell, leader)}`),
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
  const n = near.filter((cell) => isFull(cell.of)).length;
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
  const [i, j] = [first, second].map((name) => names.indexOf(name));
  const [a, b] = [cells[i], cells[j]];
  if (!b) return fill("real", element("p", {}, "There is nothing to compare it with."));
  const difference = a.value - b.value;
  // Against the highest the test is that of the sentences and marks: fewer tests are corrected together.
  const leader = column.of.get(column.leader);
  const other = a === leader ? b : b === leader ? a : null;
  const value = other ? other.p : pairP(column, cells.length, i, j);
  const isReal = value != null && value < alphaOf(column);
  const tag =
    value == null
      ? element("span", { class: "tag no" }, "Not tested")
      : isReal
        ? element("span", { class: "tag yes" }, "Yes")
        : element("span", { class: "tag no" }, "Cannot be told");
  const better = i < j ? first : second; // in full precision
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
      ...(value == null
        ? withCode(untold(column, other))
        : [`Paired randomisation test, corrected by Holm over the ${among}.`]),
    ),
  );
}

// Why there is no test of two encoders; `other`: the one that was to be held against the highest, if one was.
function untold(column, other) {
  if (other && other.flags & TESTED) return "There are too few items for a test.";
  if (!other && data.pairs[column.place] === false)
    return "This page has no room for the tests of so many pairs; `leaderboard compare` has them.";
  return "The results hold no test of these two on this.";
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
