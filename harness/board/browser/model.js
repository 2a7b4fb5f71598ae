// The page's data, and what of it is shown. The numbers are Python's: here they are only chosen, sorted and printed.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const BEST = 1,
  OTHER_LANGUAGE = 2,
  UNTESTED = 4,
  TESTED = 8,
  RESAMPLED = 16;

data.columns.forEach((column, place) => {
  column.id = [column.task, column.subset, column.metric].join("/");
  column.place = place;
  column.languages ??= [];
  column.cells = data.cells[place].map(([encoder, value, low, high, flags, p, record]) => ({
    encoder,
    value,
    low,
    high,
    flags,
    p,
    record,
  }));
  column.of = new Map(column.cells.map((cell) => [cell.encoder, cell]));
});
const placeOf = new Map(data.encoders.map((encoder, place) => [encoder.name, place]));
data.encoders.forEach((encoder, place) => {
  encoder.place = place;
  encoder.cost = data.costs.by_encoder[place];
  // Of cut and quantised vectors, the encoder whose vectors they were, if it is here.
  encoder.base = encoder.made_from == null ? null : (placeOf.get(encoder.made_from) ?? null);
});
const isFull = (encoder) => encoder.made_from == null;
const taskOf = Object.fromEntries(data.tasks.map((task) => [task.name, task]));
const hasReal = data.columns.some((column) => !column.sample);
const hasSample = data.columns.some((column) => column.sample);

// What the address holds; what is as here stands in no address.
const DEFAULTS = {
  task: "",
  lang: "",
  set: "",
  sample: "",
  find: "",
  variants: "",
  metrics: "",
  all: "",
  sort: "",
  up: "",
  within: "2",
  first: "",
  second: "",
  theme: "",
  compared: "",
  biases: "",
};
const state = { ...DEFAULTS };

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name in DEFAULTS) state[name] = given.get(name) ?? DEFAULTS[name];
  if (!hasReal) state.sample = "1";
  if (!hasSample) state.sample = "";
  if (!Object.hasOwn(taskOf, state.task)) state.task = "";
  if (!(parseFloat(state.within) >= 0)) state.within = DEFAULTS.within;
  dropLanguage();
}

// The chosen task may have no set on the chosen language: then all languages are chosen, and `lost` is that one.
let lost = "";
function dropLanguage() {
  const ofTask = ofData().filter((column) => !state.task || column.task === state.task);
  lost = state.lang && !ofTask.some((column) => isOn(column, state.lang)) ? state.lang : "";
  if (lost) state.lang = "";
}

function writeAddress() {
  const changed = Object.entries(state).filter(
    ([name, value]) => value !== DEFAULTS[name] && !(name === "sample" && !hasReal),
  );
  const hash = new URLSearchParams(changed).toString();
  history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search);
}

const ofData = () => data.columns.filter((column) => Boolean(column.sample) === Boolean(state.sample));

// A set counts as one on a language if it is on this and English alone, as in `leaderboard show --language`.
const isOn = (column, language) =>
  column.languages.includes(language) && column.languages.every((code) => code === language || code === "en");

const FEW = 24;

// The columns of the table, and whether sets were left out because they are many.
function shownColumns() {
  let columns = ofData();
  if (!state.task && !state.lang) {
    const headlines = columns.filter((column) => column.headline);
    if (headlines.length && !state.all) {
      const keys = new Set(headlines.map((column) => column.task + "/" + column.subset));
      return {
        columns: state.metrics ? columns.filter((c) => keys.has(c.task + "/" + c.subset)) : headlines,
        isShort: true,
      };
    }
  }
  if (state.task) columns = columns.filter((column) => column.task === state.task);
  if (state.lang) columns = columns.filter((column) => isOn(column, state.lang));
  if (!state.metrics && columns.some((column) => column.main)) columns = columns.filter((column) => column.main);
  const averages = columns.filter((column) => column.average);
  const isMuch = columns.length - averages.length > FEW && averages.length > 0 && !state.lang;
  return isMuch && !state.all ? { columns: averages, isShort: true } : { columns, isShort: false };
}

// Whether a question has an answer on a score: it ranks encoders of full vectors, or is the better the nearer to zero.
const isDifference = (column) => column.kind === "difference";
const hasAnswer = (column) => column.leader != null || Boolean(column.nearest);

// The score that answers, charts and pairs are of: the one chosen; where that is not shown, one by the same metric.
function focus() {
  const columns = shownColumns().columns.filter(hasAnswer);
  return columns.find((column) => column.id === state.set) ?? preferred(columns) ?? null;
}

// By the metric of the chosen score, else by that which stands for all of the task; a headline on the most languages,
// else the first.
function preferred(columns) {
  const chosen = data.columns.find((column) => column.id === state.set);
  const wished = columns.some((column) => column.task === chosen?.task) ? chosen : null;
  const task = (wished ?? columns[0])?.task;
  const ofTask = columns.filter((column) => column.task === task);
  const standing = ofData().filter((column) => column.task === task && column.headline);
  const metrics = wished ? [wished.metric] : standing.map((column) => column.metric);
  const fitting = ofTask.filter((column) => metrics.includes(column.metric));
  const headlines = fitting.filter((column) => standing.some((one) => one.subset === column.subset));
  return broadest(headlines) ?? fitting[0] ?? ofTask[0];
}
const broadest = (columns) =>
  columns.reduce(
    (best, column) => (!best || column.languages.length > best.languages.length ? column : best),
    undefined,
  );

const isShownEncoder = (encoder) => {
  const name = state.find.trim().toLowerCase();
  const base = encoder.base != null ? data.encoders[encoder.base] : null;
  return !name || [encoder, base].some((one) => one && one.name.toLowerCase().includes(name));
};

// Encoders that have one of these scores, each followed by its cut and quantised vectors.
function shownEncoders(columns) {
  const measured = new Set(columns.flatMap((column) => [...column.of.keys()]));
  const found = data.encoders.filter((encoder) => measured.has(encoder.place) && isShownEncoder(encoder));
  const there = new Set(found.map((encoder) => encoder.place));
  const roots = found.filter((encoder) => encoder.base == null || !there.has(encoder.base));
  const variants = new Map();
  for (const encoder of found) {
    if (encoder.base != null && there.has(encoder.base))
      variants.set(encoder.base, [...(variants.get(encoder.base) ?? []), encoder]);
  }
  for (const of of variants.values()) of.sort((a, b) => (b.reduced?.[2] ?? 0) - (a.reduced?.[2] ?? 0));
  return { roots, variants };
}

// Encoders of full vectors with their values on a column, the highest first.
const ranking = (column) => column.cells.filter((cell) => isFull(data.encoders[cell.encoder]));

// The first of a score by which all others are held: the highest, or the nearest to zero.
const firstOf = (column) => column.of.get(isDifference(column) ? column.nearest[0] : column.leader);
// Names in a sentence, the first of many.
const namesOf = (places) => {
  const few = places.slice(0, 6).map((place) => data.encoders[place].name);
  return few.join(", ") + (places.length > 6 ? ` and ${places.length - 6} more` : "");
};
// How many points a score is from that.
const distance = (column, cell) =>
  isDifference(column) ? Math.abs(cell.value) - Math.abs(firstOf(column).value) : firstOf(column).value - cell.value;

// The two encoders that are compared: those chosen, else the first two.
function compared(column) {
  const places = isDifference(column) ? column.nearest : ranking(column).map((cell) => cell.encoder);
  const names = places.map((place) => data.encoders[place].name);
  const first = names.includes(state.first) ? state.first : names[0];
  const isOther = names.includes(state.second) && state.second !== first;
  return { names, first, second: isOther ? state.second : (names.find((name) => name !== first) ?? "") };
}

// Holm's corrected p of two encoders of a ranking, by their places in it; null where they were not tested.
function pairP(column, n, first, second) {
  const pairs = data.pairs[column.place];
  if (!pairs) return null;
  const [i, j] = first < second ? [first, second] : [second, first];
  return pairs.p[i * n - (i * (i + 1)) / 2 + (j - i - 1)];
}

// The overall ranks of the data that are shown; of the encoders that have one.
const overallRanks = () => data.ranks[state.sample ? "sample" : "measured"];
const rankOf = (encoder) => overallRanks().by_encoder[encoder.place];

// Languages as the data sets name them, which charts do too; the browser knows the others.
const named = new Map();
for (const { name, languages } of data.columns) {
  const others = languages.filter((code) => code !== "en");
  if (name && others.length === 1 && !named.has(others[0])) named.set(others[0], name);
}
const languageName = (code) => named.get(code) ?? commonName(code);

const alphaOf = (column) => taskOf[column.task].alpha;
const percent = (level) => `${Number((100 * level).toPrecision(6))} %`;
const hasInterval = (column) => column.cells.some((cell) => cell.low != null);
// The levels of the intervals of these columns: nearly always one; empty if they have none.
const levelsOf = (columns) =>
  [...new Set(columns.filter(hasInterval).map((column) => percent(taskOf[column.task].level)))].join(" or ");
