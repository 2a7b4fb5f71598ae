// Numbers and parts of the document. Texts of records come in as text nodes and attributes, never as HTML.
const DIGITS = { score: 1, error: 1, difference: 2, threshold: 4 };
const MISSING = "\u2013";

// As Python rounds: of two numbers that are as near, the one that ends in an even digit (toFixed takes the higher one).
// Only odd multiples of 1/2, 1/4 (one decimal), 1/8 (two), ... lie just between two, and these are exact.
function rounded(size, digits) {
  const isBetween = (size * 2 ** (digits + 1)) % 2 === 1;
  const below = isBetween ? Math.floor(size * 10 ** digits) : 0;
  return (isBetween ? (below + (below % 2)) / 10 ** digits : size).toFixed(digits);
}

function fixed(value, digits, sign = false) {
  const text = rounded(Math.abs(value), digits);
  const isZero = Number(text) === 0;
  return (value < 0 && !isZero ? "\u2212" : sign ? "+" : "") + text;
}
const score = (value, kind) => (value == null ? MISSING : fixed(value, DIGITS[kind] ?? 1, kind === "difference"));
const interval = (cell, kind) => (cell.low == null ? "" : `[${score(cell.low, kind)}, ${score(cell.high, kind)}]`);
const p = (value) => (value < 0.001 ? "p < 0.001" : "p = " + fixed(value, 3));
const count = (value) => Number(rounded(value, 0)).toLocaleString("en");
// Speeds and sizes, as the tables of costs print them; the ends of a range have the digits of what is between them.
const figure = (value, by = value) => (by >= 100 ? count(value) : fixed(value, 1));
const size = (bytes) =>
  bytes === 0 ? "none" : bytes >= 1e5 ? `${figure(bytes / 1e6)} MB` : `${figure(bytes / 1e3)} kB`;

const names = new Intl.DisplayNames(["en"], { type: "language" });
function commonName(code) {
  try {
    return names.of(code) ?? code;
  } catch {
    return code;
  }
}

// What a set is called beside its code: by the data set, or from which language to which one the user's own pairs are.
for (const column of data.columns) column.name ??= column.direction?.map(languageName).join(" \u2192 ");

// element("td", {class: "number", onclick: f}, "text", node, ...)
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null && child !== "" && child !== false));
  return made;
}

function fill(where, ...children) {
  const node = typeof where === "string" ? $(where) : where;
  node.replaceChildren(...children.filter((child) => child != null));
  return node;
}

function options(select, entries, chosen) {
  fill(select, ...entries.map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
  select.value = chosen;
}

// A sentence of the tests, its first encoder in bold.
const sentence = ([before, name, after]) => [before, element("strong", {}, name), after];

// A box that scrolls by itself, for a table; with a name, so that it can be reached by keyboard.
const box = (name, table) => element("div", { class: "box", role: "region", tabindex: "0", "aria-label": name }, table);

// A set's name, which breaks before its tag alone, unless it is long.
function setName(subset) {
  const [base, ...tags] = subset.split("@");
  const whole = (text) => element("span", { class: text.length > 14 ? null : "whole" }, text);
  return [whole(base), ...tags.flatMap((tag) => [element("wbr"), whole("@" + tag)])];
}

// A sentence in which what is marked `so` is code.
const withCode = (text) => text.split("`").map((part, place) => (place % 2 ? element("code", {}, part) : part));
