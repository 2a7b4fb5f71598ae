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
  const [origin, time, n, set, line, at, protocol, madeFor, parts] = data.records[place];
  const [fingerprint, spec, commit, machine, versions] = data.origins[origin];
  const [name, sha256] = data.data[set];
  const [signature, resampling] = data.protocols[protocol];
  return {
    fingerprint,
    spec,
    commit,
    machine,
    versions,
    created: data.times[time],
    n,
    name,
    sha256,
    at,
    signature,
    resampling,
    madeFor,
    parts,
    command: data.commands[line].join(` --subset ${column.quoted ?? column.subset}`),
  };
}

function recordLink(encoder, column, at) {
  const path = `records/${encoder.name}/${column.task}.json`;
  if (!data.link) return path;
  const quoted = path.split("/").map(encodeURIComponent).join("/");
  return element("a", { href: `${data.link}/${quoted}${at ? `#L${at}` : ""}`, rel: "noreferrer" }, path);
}

// Stands in commands where records do not tell how the sets were given.
const YOUR_SETS = "YOUR-SETS.toml";
const OWN = "`" + YOUR_SETS + "`: a file that lists the sets; `leaderboard run --help` has other ways to name them.";

// What the tests say of a number alone.
function testOf(encoder, column, cell) {
  if (encoder.place === column.leader) return "the highest";
  if (cell.p != null)
    return column.kind === "difference"
      ? `against zero: ${p(cell.p)}`
      : `against the highest: ${p(cell.p)}, corrected by Holm`;
  if (cell.flags & TESTED) return "too few items for a test against the highest";
  return cell.flags & UNTESTED ? "not tested against the highest" : "";
}

function showNumber(encoder, column) {
  const cell = column.of.get(encoder.place);
  const from = recordOf(cell.record, column);
  const resampling = cell.flags & RESAMPLED ? from.resampling : null;
  showDialog(
    `${encoder.name}, ${column.label}`,
    list([
      ["score", `${fixed(cell.value, 4)} ${interval(cell, column.kind)}`],
      ["test", testOf(encoder, column, cell)],
      ["items", count(from.n)],
      ["average of", from.parts ? `${from.parts} sets` : ""],
      ["languages", column.languages.map(languageName).join(", ")],
      ["note", cell.flags & OTHER_LANGUAGE ? "on a language that the encoder was not made for" : ""],
    ]),
    element("h3", {}, "How to repeat it"),
    from.command ? command(from.command) : element("p", {}, "Measured through the Python API: there is no command."),
    from.command?.includes(YOUR_SETS) ? element("p", { class: "notes" }, ...withCode(OWN)) : null,
    list([
      ["record", recordLink(encoder, column, from.at)],
      ["data", from.name],
      ["sha256", element("code", {}, from.sha256)],
      ["protocol", element("code", {}, [from.signature, resampling].filter(Boolean).join("|"))],
      ["encoder", from.spec && element("code", {}, from.spec)],
      ["fingerprint", element("code", {}, from.fingerprint)],
      ["commit", from.commit && element("code", {}, from.commit)],
      ["measured", from.created.slice(0, 10)],
      ["machine", from.machine],
      ["versions", from.versions],
    ]),
  );
}

function showEncoder(encoder) {
  const { cost } = encoder;
  const range = (known, unit) =>
    known &&
    `${figure(known[0])} ${unit}` +
      (known[1] < known[2] ? ` [${figure(known[1], known[0])}, ${figure(known[2], known[0])}]` : "");
  const headlines = ofData().filter((column) => column.headline && column.of.has(encoder.place));
  showDialog(
    encoder.name,
    list(
      [
        [
          "made from",
          [
            encoder.made_from,
            encoder.reduced &&
              `${encoder.reduced[0]} dimensions, quantize ${encoder.reduced[1]}, ${count(encoder.reduced[2])} bytes a vector`,
          ]
            .filter(Boolean)
            .join(": "),
        ],
        ["licence of the weights", licenceText(encoder)],
        ["speed", cost?.speed && range(cost.speed, "sentences/s")],
        ["one text", cost?.ms != null && `${cost.ms} ms`],
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
