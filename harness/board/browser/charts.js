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

// Of the chosen score, else of its task's average: never of another task.
function drawCosts() {
  const now = focus();
  const charted = ofData().filter((column) => data.charts.cost[column.place] && column.task === now?.task);
  const column = charted.find((one) => one === now) ?? broadest(charted);
  $("cost").hidden = !column;
  if (!column) return;
  const specs = data.charts.cost[column.place];
  const hasCut = [...column.of.keys()].some((place) => data.encoders[place].reduced);
  $("cost-note").textContent =
    `${column.label}${column === now ? "" : ", since single sets have no chart"}. The line joins the encoders that no other one beats in both.` +
    (specs.speed ? ` Speed: only what was measured on ${data.charts.setup[column.place]}.` : "") +
    (hasCut ? " Small points: cut and quantised vectors." : "");
  for (const [kind, where] of Object.entries(COSTS_DRAWN)) {
    $(where).hidden = !specs[kind];
    if (specs[kind]) draw(where, specs[kind]);
  }
}

// Of the chosen task; where none is chosen, of the one that has the most sets.
function drawLanguages() {
  const known = ofData().filter((column) => data.charts.languages[column.place]);
  const sets = (column) => data.charts.languages[column.place].n;
  const ofTask = known.find((column) => column.task === focus()?.task);
  const most = () => known.reduce((best, one) => (!best || sets(one) > sets(best) ? one : best), undefined);
  const column = state.task ? ofTask : (state.lang && ofTask) || most();
  $("languages").hidden = !column;
  if (!column) return;
  const { spec, encoders, title, note } = data.charts.languages[column.place];
  const chosen = chooser("languages", encoders, 3, "compared");
  const levels = levelsOf([column]);
  $("languages-note").textContent =
    `${title}${levels && `, with ${levels} intervals`}${note}. Choose a task above for another chart; the table has all numbers.`;
  $("languages-chart").hidden = !chosen.length;
  if (chosen.length) draw("languages-chart", spec, chosen);
}

function drawCharts() {
  if (!data.charts.cost) {
    for (const id of ["cost", "languages"]) $(id).hidden = true;
    $("no-charts").hidden = false;
  } else if (window.vegaEmbed) {
    drawCosts();
    drawLanguages();
  }
}
