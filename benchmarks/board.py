"""The board in a browser: seconds until its table can be used, and milliseconds to sort it, by number of encoders.

    python benchmarks/board.py [--encoders 6 --encoders 200] [--rounds 5]

Results are made up: scores, intervals and tests of all pairs on STS, BUCC and 112 languages of Tatoeba. A table can be
used once its rows stand there and the page answers; charts come after it. A sort is one click with the new layout, not
painted; of many encoders the page shows 50 rows at first, and "all rows" are those after "Show ... more".
Needs the extra `board`, playwright and the path of a browser:

    HARNESS_BROWSER=$(python tests/support/browsers.py) python benchmarks/board.py
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path

from harness.board.data import Shown
from harness.board.page import Options, page
from harness.protocol import get_task
from harness.results.records import Dataset, Result
from harness.results.statistics import Entry, Statistics, digest
from harness.speed.store import Cell, Measurement

TASKS = {"sts17": ("spearman", 12), "bucc": ("f1_train", 5), "tatoeba": ("accuracy_xx_en", 116)}
SORT = """() => {
  const buttons = [...document.querySelectorAll('#table th[data-sort] button')];
  const times = [];
  for (const _ of buttons) {
    const button = document.querySelectorAll('#table th[data-sort] button')[times.length];
    const start = performance.now();
    button.click();
    document.body.offsetHeight;
    times.push(performance.now() - start);
  }
  return times;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoders", type=int, action="append", help="numbers of encoders (6, 200)")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    executable = os.environ.get("HARNESS_BROWSER")
    if not executable:
        raise SystemExit("needs a browser: set HARNESS_BROWSER to its path (python tests/support/browsers.py)")
    print("                                                            median ms (worst) of a sort of  filter")
    print("encoders  making s  page MB  gzip MB  table s (worst)  charts s  first rows    all rows          ms")
    with tempfile.TemporaryDirectory() as folder:
        for n in options.encoders or [6, 200]:
            print(line(n, Path(folder) / "board.html", executable, options.rounds), flush=True)


def line(n: int, file: Path, executable: str, rounds: int) -> str:
    start = time.perf_counter()
    content = page(made_up(n), Options()).encode()
    making = time.perf_counter() - start
    file.write_bytes(content)
    table, charts, sorts, whole, filters = zip(*browse(file, executable, rounds), strict=True)
    return (
        f"{n:8}  {making:8.1f}  {len(content) / 1e6:7.2f}  {len(gzip.compress(content)) / 1e6:7.2f}  "
        f"{statistics.median(table):7.2f} ({max(table):.2f})  {statistics.median(charts):8.2f}  "
        f"{spread(sorts)}  {spread(whole)}  {statistics.median(filters):6.1f}"
    )


def spread(rounds: Iterable[list[float]]) -> str:
    times = [ms for of_round in rounds for ms in of_round]
    return f"{statistics.median(times):5.1f} ({max(times):.0f})"


def browse(file: Path, executable: str, rounds: int) -> Iterator[tuple[float, float, list[float], list[float], float]]:
    """Of each round, in a fresh browser context: seconds to the table and to the charts; ms of sorts by each column, of
    the first rows and of all, and of a filter.

    The page itself marks when its table has been painted and all is drawn that needs no library.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for _ in range(rounds):
            context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
            tab = context.new_page()
            tab.goto(file.as_uri())
            tab.wait_for_selector("#cost-bytes svg")
            charts = tab.evaluate("performance.now()") / 1000
            table = tab.evaluate("performance.getEntriesByName('usable')[0].startTime") / 1000
            sorts = tab.evaluate(SORT)
            filtered = tab.evaluate(
                "() => { const t = performance.now(); const f = document.getElementById('find'); f.value = '1';"
                " f.dispatchEvent(new Event('input')); document.body.offsetHeight; return performance.now() - t; }"
            )
            tab.fill("#find", "")
            if tab.locator("#rest").is_visible():
                tab.click("#rest")
            yield table, charts, sorts, tab.evaluate(SORT), filtered
            context.close()
        browser.close()


def made_up(n: int) -> Shown:
    """n encoders; a number's p-values are of pairs that are the further apart, the smaller."""
    dice = random.Random(1)
    level = {f"encoder-{number:03}": dice.uniform(30, 90) for number in range(n)}
    results: list[Result] = []
    found: dict[str, Statistics] = {}
    for task, (metric, most) in TASKS.items():
        known = get_task(task)
        averages = known.averages(known.published)
        subsets = [*averages, *[subset for subset in known.published if subset not in averages]][:most]
        statistics_of = found.setdefault(task, Statistics("made-up", 0.95, {}))
        for subset in subsets:
            scores = {name: round(value + dice.gauss(0, 5), 6) for name, value in level.items()}
            tests = tests_of(scores, metric)
            for name, score in scores.items():
                result = one(name, task, subset, {metric: score}, known.full_signature, averages.get(subset, ()))
                results.append(result)
                entry = Entry(digest(result), {metric: (score - 1.5, score + 1.5)}, tests[name])
                statistics_of.entries[name, subset] = entry
    return Shown(results, found, [cost(name, dice.uniform(1e-5, 1e-2)) for name in level])


def tests_of(scores: Mapping[str, float], metric: str) -> dict[str, dict[str, dict[str, float]]]:
    tests: dict[str, dict[str, dict[str, float]]] = {name: {metric: {}} for name in scores}
    for first, second in combinations(sorted(scores), 2):
        tests[first][metric][second] = max(0.0001, round(1 - min(1, abs(scores[first] - scores[second]) / 5), 4))
    return tests


def one(name: str, task: str, subset: str, metrics: dict[str, float], signature: str, parts: tuple[str, ...]) -> Result:
    return Result(
        task=task,
        task_version="1",
        subset=subset,
        encoder=name,
        fingerprint=f"{name}-1",
        metrics=metrics,
        n=1000,
        signature=signature,
        dataset=Dataset(task, "0123456789abcdef" * 4, {}),
        spec=f"static:{name}",
        parts=list(parts),
        created="2025-01-02T03:04:05+00:00",
    )


def cost(name: str, seconds: float) -> Measurement:
    cells = [Cell("medium", "own", 64, 100, 11_000, [100 * seconds, 110 * seconds])]
    size = int(seconds * 1e9)
    return Measurement(name, f"{name}-1", 384, 1536, 2, "made-up", cells, size_bytes=size, hardware={"cores": 2})


if __name__ == "__main__":
    main()
