// Downloads: what the table shows, an entry a number, with the keys of `leaderboard show --format csv`.
function entries() {
  const { columns } = shownColumns();
  const { roots, variants } = shownEncoders(columns);
  const encoders = sorted(roots, columns).flatMap((encoder) => [
    encoder,
    ...(state.variants || opened.has(encoder.place) ? (variants.get(encoder.place) ?? []) : []),
  ]);
  return encoders.flatMap((encoder) =>
    columns.filter((column) => column.of.has(encoder.place)).map((column) => entry(encoder, column)),
  );
}

function entry(encoder, column) {
  const cell = column.of.get(encoder.place);
  const from = recordOf(cell.record, column);
  const isDifference = column.kind === "difference";
  return {
    encoder: encoder.name,
    task: column.task,
    subset: column.subset,
    metric: column.metric,
    value: cell.value,
    low: cell.low,
    high: cell.high,
    interval: cell.flags & RESAMPLED ? from.resampling : null,
    is_best: cell.flags & BEST ? true : cell.flags & TESTED ? false : null,
    p_best: isDifference ? null : cell.p,
    p_zero: isDifference ? cell.p : null,
    n: from.n,
    made_for_language: from.madeFor,
    signature: from.signature,
    source: "measured",
    fingerprint: from.fingerprint,
    dataset: from.name,
    dataset_sha256: from.sha256,
    created: from.created,
  };
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
