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

// A copy of a specification in the colours of the theme, of some encoders alone (null: of all).
function adapted(part, encoders) {
  if (typeof part === "string") return isDark() ? (data.charts.dark[part] ?? part) : part;
  if (Array.isArray(part)) {
    const kept = encoders
      ? part.filter((one) => !(one && typeof one === "object" && "encoder" in one) || encoders.includes(one.encoder))
      : part;
    return kept.map((one) => adapted(one, encoders));
  }
  if (!part || typeof part !== "object") return part;
  const copy = Object.fromEntries(Object.entries(part).map(([key, value]) => [key, adapted(value, encoders)]));
  if (encoders && Array.isArray(part.domain) && Array.isArray(part.range) && part.domain.length === part.range.length) {
    const kept = part.domain.map((name) => encoders.includes(name));
    copy.domain = part.domain.filter((_, place) => kept[place]);
    copy.range = part.range.filter((_, place) => kept[place]).map((one) => adapted(one, null));
  }
  return copy;
}

const drawn = new Map();

async function draw(where, spec, encoders = null) {
  const whole = adapted({ ...spec, config: data.charts.config }, encoders);
  const before = drawn.get(where);
  drawn.set(where, window.vegaEmbed(where, whole, VEGA));
  (await before)?.finalize();
}

function drawCosts() {
  const known = Object.keys(data.charts.cost ?? {})
    .map(Number)
    .filter((place) => Boolean(data.columns[place].sample) === Boolean(state.sample));
  $("cost").hidden = !known.length;
  if (!known.length) return;
  const now = focus();
  const ofTask = known.filter((one) => data.columns[one].task === now?.task).map((one) => data.columns[one]);
  const place = known.includes(now?.place) ? now.place : (broadest(ofTask)?.place ?? known[0]);
  const specs = data.charts.cost[place];
  const kinds = Object.keys(COSTS_DRAWN).filter((kind) => specs[kind]);
  $("cost-note").textContent =
    `${data.columns[place].label}. The line joins the encoders that no other one beats in both.` +
    (specs.speed ? ` Speed: only what was measured on ${data.costs.setup}.` : "") +
    (data.encoders.some((encoder) => encoder.reduced) ? " Small points: cut and quantised vectors." : "") +
    (now && place !== now.place ? " (Charts are of averages alone.)" : "");
  for (const kind of Object.keys(COSTS_DRAWN)) $(COSTS_DRAWN[kind]).hidden = !kinds.includes(kind);
  for (const kind of kinds) draw("#" + COSTS_DRAWN[kind], specs[kind]);
}
const COSTS_DRAWN = { speed: "cost-speed", disk: "cost-disk", bytes: "cost-bytes" };

function drawLanguages() {
  const known = Object.entries(data.charts.languages ?? {}).filter(
    ([place]) => Boolean(data.columns[place].sample) === Boolean(state.sample),
  );
  const task = focus()?.task;
  const most = ([, one]) => JSON.stringify(one.spec).length;
  const found =
    known.find(([place]) => state.task && data.columns[place].task === task) ??
    known.sort((a, b) => most(b) - most(a))[0];
  $("languages").hidden = !found;
  if (!found) return;
  const [, { spec, encoders, title }] = found;
  const chosen = chosenNames(encoders, 3);
  chooser("languages-choice", encoders, chosen);
  $("languages-note").textContent =
    `${title}, with ${100 * data.level} % intervals. Choose a task above for another chart; the table has all numbers.`;
  draw("#languages-chart", spec, chosen);
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
