// Charts, once their library has been read: it comes last in the page. Specifications are Python's, in light colours.
const VEGA = {
  mode: "vega-lite",
  renderer: "svg",
  actions: false,
  ast: true,
  defaultStyle: false,
  tooltip: { disableDefaultStyle: true },
  logLevel: 1,
};

// A copy of a specification, of some encoders alone (null: of all).
function ofEncoders(part, encoders) {
  if (Array.isArray(part))
    return part
      .filter(
        (one) => !(encoders && one && typeof one === "object" && "encoder" in one) || encoders.includes(one.encoder),
      )
      .map((one) => ofEncoders(one, encoders));
  if (!part || typeof part !== "object") return part;
  const copy = Object.fromEntries(Object.entries(part).map(([key, value]) => [key, ofEncoders(value, encoders)]));
  if (encoders && Array.isArray(part.domain) && Array.isArray(part.range) && part.domain.length === part.range.length) {
    const kept = part.domain.map((name) => encoders.includes(name));
    copy.domain = part.domain.filter((_, place) => kept[place]);
    copy.range = part.range.filter((_, place) => kept[place]);
  }
  return copy;
}

// A drawn chart has the colours of the light theme, or in their places those of the dark one; on paper always the light.
const DARK = new Map(Object.entries(data.charts.dark ?? {}));
const LIGHT = new Map([...DARK].map(([light, dark]) => [dark, light]));
let isPrinted = false;
function colour(chart) {
  const colours = isDark() && !isPrinted ? DARK : LIGHT;
  for (const name of ["fill", "stroke"])
    for (const node of chart.querySelectorAll(`svg [${name}]`)) {
      const other = colours.get(node.getAttribute(name));
      if (other) node.setAttribute(name, other);
    }
}
const colourCharts = () => document.querySelectorAll(".chart").forEach(colour);

const drawn = new Map();

async function draw(where, spec, encoders = null) {
  const before = drawn.get(where);
  // The page itself is behind the charts.
  const config = { ...data.charts.config, background: null };
  const now = window.vegaEmbed(`#${where}`, ofEncoders({ ...spec, config }, encoders), VEGA);
  drawn.set(where, now);
  (await before)?.finalize();
  await now;
  colour($(where));
}

const COSTS_DRAWN = { speed: "cost-speed", disk: "cost-disk", bytes: "cost-bytes" };

// Of the chosen score alone; where that has no chart, a line names one of its task that has.
function drawCosts() {
  const column = focus();
  const charted = ofData().filter((one) => data.charts.cost[one.place] && one.task === column?.task);
  $("cost").hidden = !charted.length;
  if (!charted.length) return;
  if (!charted.includes(column)) {
    const alike = charted.filter((one) => one.metric === column.metric);
    const other = alike.find((one) => one.headline) ?? broadest(alike) ?? broadest(charted);
    for (const where of Object.values(COSTS_DRAWN)) $(where).hidden = true;
    $("cost-note").textContent = `${column.label} has no chart${column.average || taskOf[column.task].own ? "" : ", since single sets have none"}; ${other.label} has one.`;
    return;
  }
  const specs = data.charts.cost[column.place];
  const hasCut = [...column.of.keys()].some((place) => data.encoders[place].reduced);
  $("cost-note").textContent =
    `${column.label}. The line joins the encoders that no other one beats in both.` +
    (column.unmeasured ? ` Not measured on it: ${namesOf(column.unmeasured)}.` : "") +
    (specs.speed ? ` Speed: only what was measured on ${data.charts.setup[column.place]}.` : "") +
    (hasCut ? " Small points: cut and quantised vectors." : "");
  for (const [kind, where] of Object.entries(COSTS_DRAWN)) {
    $(where).hidden = !specs[kind];
    if (specs[kind]) draw(where, specs[kind]);
  }
}

// At first those that the answers name: the best, and the two that are compared.
function answered(encoders) {
  const column = focus();
  if (!column) return encoders.slice(0, 3);
  const { first, second } = compared(column);
  const best = (isDifference(column) ? column.zero : column.best) ?? [firstOf(column).encoder];
  const names = new Set([...best.slice(0, 3).map((place) => data.encoders[place].name), first, second]);
  const found = encoders.filter((name) => names.has(name));
  return found.length ? found : encoders.slice(0, 3);
}

// The chosen language's name in bold.
function markLanguage(column) {
  const names = ofData()
    .filter((one) => state.lang && one.task === column.task && isOn(one, state.lang))
    .map((one) => one.name ?? one.subset.split("@")[0]);
  for (const text of $("languages-chart").querySelectorAll("svg text"))
    if (names.includes(text.textContent)) text.setAttribute("font-weight", "bold");
}

const sayWidth = () => {
  const chart = $("languages-chart");
  $("languages-wide").hidden = chart.scrollWidth <= chart.clientWidth + 1;
};

// Of the chosen task; where none is chosen, of the one that has the most sets.
let before = "";
async function drawLanguages() {
  if (!data.charts.languages || !window.vegaEmbed) return;
  const known = ofData().filter((column) => data.charts.languages[column.place]);
  const sets = (column) => data.charts.languages[column.place].n;
  const ofTask = known.find((column) => column.task === focus()?.task);
  const most = () => known.reduce((best, one) => (!best || sets(one) > sets(best) ? one : best), undefined);
  const column = state.task ? ofTask : (state.lang && ofTask) || most();
  $("languages").hidden = !column;
  if (!column) return;
  const { spec, encoders, title, note } = data.charts.languages[column.place];
  const chosen = chooser("languages", encoders, answered(encoders), "compared");
  const levels = levelsOf([column]);
  $("languages-note").textContent =
    `${title}${levels && `, with ${levels} intervals`}${note}. Choose a task above for another chart; the table has all numbers.`;
  $("languages-chart").hidden = !chosen.length;
  const now = JSON.stringify([column.place, chosen, state.lang]);
  if (!chosen.length || now === before) return;
  before = now;
  await draw("languages-chart", spec, chosen);
  markLanguage(column);
  sayWidth();
}
addEventListener("resize", sayWidth);

function drawCharts() {
  if (!data.charts.cost) {
    for (const id of ["cost", "languages"]) $(id).hidden = true;
    $("no-charts").hidden = false;
  } else if (window.vegaEmbed) {
    drawCosts();
    drawLanguages();
  }
}
