// What people ask first, answered from the chosen score; and a sentence for every score that is shown.
const MANY = 12;
const NO_RESULTS = "No results for this choice.";

function drawChoice() {
  const columns = ofData();
  const tasks = data.tasks.filter((task) => columns.some((column) => column.task === task.name));
  options($("task"), [["", "all tasks"], ...tasks.map((task) => [task.name, task.title])], state.task);
  const ofTask = columns.filter((column) => !state.task || column.task === state.task);
  const codes = [...new Set(ofTask.flatMap((column) => column.languages))].filter((code) =>
    ofTask.some((column) => isOn(column, code)),
  );
  const entries = codes
    .map((code) => [code, `${languageName(code)} (${code})`])
    .sort((a, b) => a[1].localeCompare(b[1], "en"));
  options($("lang"), [["", "all languages"], ...entries], state.lang);
  // Below its task a score needs no name of it.
  const text = ({ label, subset, heading, name }) =>
    (state.task ? `${heading} ${subset}` : label) + (name ? ` (${name})` : "");
  options(
    $("set"),
    shownColumns()
      .columns.filter(hasAnswer)
      .map((column) => [column.id, text(column)]),
    focus()?.id ?? "",
  );
  $("lost").hidden = !lost;
  $("lost").textContent = lost
    ? `${state.task ? taskOf[state.task].title : "The page"} has no set on ${languageName(lost)} alone: all languages are shown.`
    : "";
  $("data-label").hidden = !(hasReal && hasSample);
  $("data-kind").value = state.sample;
}

function drawAnswers() {
  const column = focus();
  $("best-head").textContent = column && isDifference(column) ? "Which is least biased?" : "Which is best?";
  if (!column) {
    for (const id of ["best", "cheap", "real"]) fill(id, element("p", {}, NO_RESULTS));
    return;
  }
  const leader = firstOf(column);
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

// Who is called the best (whose difference cannot be told from zero); where the tests call nobody that, who is first.
function bestNames(column) {
  const places = (isDifference(column) ? column.zero : column.best) ?? [];
  const names = places.map((place) => data.encoders[place].name);
  const first = data.encoders[firstOf(column).encoder].name;
  if (!names.length) return isDifference(column) ? `Nearest to zero: ${first}` : `Highest: ${first}`;
  const few = names.length > 3 ? [...names.slice(0, 3), `${names.length - 3} more`] : names;
  return few.length > 1 ? `${few.slice(0, -1).join(", ")} or ${few.at(-1)}` : few[0];
}

// How far a score is from the first; cut vectors may lie above the highest.
function fromFirst(column, cell) {
  const far = distance(column, cell);
  if (isDifference(column)) return `${score(cell.value, column.kind)} points`;
  if (cell.encoder === column.leader) return "the highest score";
  return far < 0 ? `${fixed(-far, 1)} points above the highest of full vectors` : `${fixed(far, 1)} points lower`;
}

function drawCheapest(column, leader) {
  const within = parseFloat(state.within);
  const near = column.cells
    .filter((cell) => distance(column, cell) <= within + 1e-9)
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
          element("dd", {}, element("strong", {}, cell.of.name), ` ${text}, ${fromFirst(column, cell)}`),
        ]
      : [];
  const fastest = least(alike, (cell) => -cell.of.cost.speed[0]);
  const smallest = least(sized, (cell) => cell.of.cost.size);
  const shortest = least(short, bytes);
  const parts = [
    ...line("fastest", fastest, fastest && `${figure(fastest.of.cost.speed[0])} sentences/s`),
    ...line("smallest", smallest, smallest && size(smallest.of.cost.size)),
    ...line("shortest vectors", shortest, shortest && `${count(bytes(shortest))} bytes`),
  ];
  const n = near.filter((cell) => isFull(cell.of)).length;
  fill(
    "cheap",
    parts.length
      ? element("dl", { class: "cheap" }, ...parts)
      : element("p", {}, ...withCode(`What these cost is not known; ${data.costs.hint}.`)),
    element(
      "p",
      { class: "notes" },
      `Of ${ranking(column).length} encoders with full vectors ${n} ${n === 1 ? "has" : "have"} ` +
        (isDifference(column)
          ? `a difference of ${score(Math.abs(leader.value) + within)} or less in size on ${column.label}.`
          : `${score(leader.value - within, column.kind)} or more on ${column.label}.`),
    ),
  );
}

function drawPair(column) {
  const { names, first, second } = compared(column);
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
  if (!second) return fill("real", element("p", {}, "There is nothing to compare it with."));
  if (isDifference(column)) return drawZeros(column, [first, second]);
  const cells = ranking(column);
  const [i, j] = [first, second].map((name) => names.indexOf(name));
  const [a, b] = [cells[i], cells[j]];
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
        : element("span", { class: "tag no" }, "Not proven");
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

// Differences are held against zero, and not against each other.
function drawZeros(column, names) {
  const cells = names.map((name) => column.of.get(placeOf.get(name)));
  fill(
    "real",
    element(
      "p",
      {},
      element("span", { class: "tag no" }, "Not tested"),
      " Each is tested against zero alone, corrected by Holm over the encoders:",
    ),
    element(
      "dl",
      { class: "cheap" },
      ...cells.flatMap((cell, place) => [
        element("dt", {}, names[place]),
        element("dd", {}, `${score(cell.value, column.kind)}, ${againstZero(column, cell)}`),
      ]),
    ),
  );
}

function againstZero(column, cell) {
  if (cell.p == null) return "not tested";
  return `${cell.p < alphaOf(column) ? "not zero" : "cannot be told from zero"} (${p(cell.p)})`;
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
    ...(lines.length ? lines : [element("dt", {}, "\u2013"), element("dd", {}, NO_RESULTS)]),
  );
  $("more-verdicts").hidden = said.length <= MANY;
  $("more-verdicts").textContent = `And ${said.length - MANY} more scores: choose a language, or one score above.`;
}
