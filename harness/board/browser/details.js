// What it takes to repeat a number, and what is known of an encoder; downloads.
function showDialog(title, ...children) {
  const dialog = $("details");
  fill(
    dialog,
    element(
      "div",
      { class: "head" },
      element("h2", { id: "details-head" }, title),
      element("button", { type: "button", onclick: () => dialog.close() }, "Close"),
    ),
    ...children,
  );
  dialog.showModal();
}

const list = (pairs) =>
  element(
    "dl",
    {},
    ...pairs
      .filter(([, value]) => value != null && value !== "")
      .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
  );

// A command with a button that copies it.
function command(text) {
  const button = element(
    "button",
    {
      type: "button",
      onclick: async () => {
        await navigator.clipboard?.writeText(text).catch(() => {});
        button.textContent = "Copied";
      },
    },
    "Copy",
  );
  return element("div", {}, element("pre", { tabindex: "0" }, text), button);
}

function recordOf(place, column) {
  const [origin, created, n, set, line, at] = data.records[place];
  const [fingerprint, spec, commit, machine, versions] = data.origins[origin];
  const [name, sha256] = data.data[set];
  return {
    fingerprint,
    spec,
    commit,
    machine,
    versions,
    created,
    n,
    name,
    sha256,
    at,
    command: data.commands[line].join(` --subset ${column.choose}`),
  };
}

function recordLink(encoder, column, at) {
  const path = `records/${encoder.name}/${column.task}.json`;
  if (!data.link) return path;
  const quoted = path.split("/").map(encodeURIComponent).join("/");
  return element("a", { href: `${data.link}/${quoted}${at ? `#L${at}` : ""}`, rel: "noreferrer" }, path);
}

function showNumber(encoder, column) {
  const cell = column.of.get(encoder.place);
  const from = recordOf(cell.record, column);
  const test =
    cell.p == null
      ? cell.flags & UNTESTED
        ? "not tested against the highest"
        : ""
      : column.kind === "difference"
        ? `against zero: ${p(cell.p)}`
        : `against the highest: ${p(cell.p)}, corrected by Holm`;
  showDialog(
    `${encoder.name}, ${column.label}`,
    list([
      ["score", `${fixed(cell.value, 4)} ${interval(cell, column.kind)}`],
      ["test", test || (cell.flags & BEST ? "the highest" : "")],
      ["items", count(from.n)],
      ["average of", column.parts ? `${column.parts} sets` : ""],
      ["languages", column.languages.map(languageName).join(", ")],
      ["note", cell.flags & OTHER_LANGUAGE ? "on a language that the encoder was not made for" : ""],
    ]),
    element("h3", {}, "How to repeat it"),
    from.command ? command(from.command) : element("p", {}, "Measured through the Python API: there is no command."),
    list([
      ["record", recordLink(encoder, column, from.at)],
      ["data", from.name],
      ["sha256", element("code", {}, from.sha256)],
      ["protocol", element("code", {}, data.signatures[column.signature])],
      ["encoder", from.spec && element("code", {}, from.spec)],
      ["fingerprint", element("code", {}, from.fingerprint)],
      ["commit", from.commit && element("code", {}, from.commit)],
      ["measured", from.created],
      ["machine", from.machine],
      ["versions", from.versions],
    ]),
  );
}

function showEncoder(encoder) {
  const { cost } = encoder;
  const range = (known, unit) =>
    known && `${count(known[0])} ${unit}` + (known[1] < known[2] ? ` [${count(known[1])}, ${count(known[2])}]` : "");
  const headlines = ofData().filter((column) => column.headline && column.of.has(encoder.place));
  showDialog(
    encoder.name,
    list(
      [
        [
          "made from",
          encoder.base != null &&
            `${data.encoders[encoder.base].name}: ${encoder.reduced[0]} dimensions, ${encoder.reduced[1]}, ${count(encoder.reduced[2])} bytes a vector`,
        ],
        ["licence of the weights", encoder.licence],
        ["speed", cost?.speed && range(cost.speed, "sentences/s")],
        ["one text", cost?.ms != null && `${cost.ms.toPrecision(2)} ms`],
        ["load", cost && range(cost.load, "s")],
        ["memory", cost && range(cost.memory, "MB")],
        ["on disk", cost?.size != null && size(cost.size)],
        ["parameters", cost?.parameters != null && count(cost.parameters)],
        ["vector", cost && `${cost.dim} dimensions, ${count(cost.bytes)} bytes`],
        ["longest text", cost?.tokens && `${cost.tokens} tokens`],
        [
          "made for",
          encoder.languages &&
            `${encoder.languages.length} languages: ${encoder.languages.map(languageName).join(", ")}`,
        ],
        ["measured on", cost?.setup],
        ["note", encoder.notes.join("; ")],
      ].map(([name, value]) => [name, value || null]),
    ),
    headlines.length ? element("h3", {}, "Scores") : null,
    headlines.length
      ? list(
          headlines.map((column) => {
            const cell = column.of.get(encoder.place);
            return [
              column.label,
              `${score(cell.value, column.kind)} ${interval(cell, column.kind)}${cell.flags & BEST ? ", best or not significantly worse" : ""}`,
            ];
          }),
        )
      : null,
  );
}

// What the table shows, an entry a number.
function entries() {
  const { columns } = shownColumns();
  const { roots, variants } = shownEncoders(columns);
  const encoders = sorted(roots, columns).flatMap((encoder) => [
    encoder,
    ...(state.variants || opened.has(encoder.place) ? (variants.get(encoder.place) ?? []) : []),
  ]);
  return encoders.flatMap((encoder) =>
    columns
      .filter((column) => column.of.has(encoder.place))
      .map((column) => {
        const cell = column.of.get(encoder.place);
        const from = recordOf(cell.record, column);
        return {
          encoder: encoder.name,
          task: column.task,
          subset: column.subset,
          metric: column.metric,
          value: cell.value,
          low: cell.low,
          high: cell.high,
          is_best: Boolean(cell.flags & BEST),
          p: cell.p,
          n: from.n,
          made_for_language: cell.flags & OTHER_LANGUAGE ? false : null,
          fingerprint: from.fingerprint,
          dataset: from.name,
          dataset_sha256: from.sha256,
          created: from.created,
        };
      }),
  );
}

// A text as a cell that no spreadsheet takes for a formula.
function spreadsheet(value) {
  if (value == null) return "";
  if (typeof value !== "string") return String(value);
  const safe = value.replace(/(^|;)(?=[\s"]*[=+\-@\uff1d\uff0b\uff0d\uff20])/g, "$1'");
  return /[",\n\r;]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function csv(rows) {
  if (!rows.length) return "";
  const keys = Object.keys(rows[0]);
  return (
    [keys.join(","), ...rows.map((one) => keys.map((key) => spreadsheet(one[key])).join(","))].join("\r\n") + "\r\n"
  );
}

function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
