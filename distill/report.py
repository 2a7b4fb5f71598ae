"""What a distillation tells: progress on stderr, and beside the student its record, report, curve and model card."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baselines.training.model_folder import (
    TRAINING_FILE,
    Settings,
    as_json,
    hub_metadata,
    markdown_table,
    settings_table,
)
from harness import charts
from harness.cli import progress
from harness.core.escaping import code, code_block, markdown
from harness.core.provenance import GitState, Hardware
from harness.core.schema import Count, Number

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

REPORT_FILE, CURVE_FILE, CARD_FILE = "report.md", "curve.svg", "README.md"

_MAIN = {
    "mse": "MSE x 100",
    "accuracy_en_xx": "accuracy en->xx",
    "accuracy_xx_en": "accuracy xx->en",
    "sts_same": "STS same language",
    "sts_cross": "STS cross-lingual",
}
_LINES = 20  # of a training or of a long count, where there is no terminal
_WORTH_A_LINE = 20_000
_NON_COMMERCIAL = re.compile(r"\bNC\b|non-?commercial|\bresearch\b", re.IGNORECASE)


def _is_restricted(licence: str) -> bool:
    """Whether a licence forbids commercial use. What was left out of the data, by its words, does not count."""
    return _NON_COMMERCIAL.search(re.sub(r"\([^)]*\bleft out\)", "", licence)) is not None


@dataclass(frozen=True)
class UsedCorpus:
    """A corpus that was trained on.

    Attributes:
        name: as `leaderboard data` has it, or the file's.
        language: of the targets.
        pairs: after the filters.
        share: of the batches, 0 to 1.
        dropped: how many pairs the filters and the leakage guard dropped, by reason.
        licence: empty where it is not known.
    """

    name: str
    language: str
    pairs: int
    share: float
    dropped: dict[str, int]
    licence: str


@dataclass(frozen=True)
class Trained:
    """The record of a distillation. Equal trainings have equal records: it has no machine path and no time.

    Attributes:
        settings: all arguments, with digests of teacher and data.
        digests: of the start, and of the projection of the teacher's vectors, if there is one.
        corpora: the corpora of the batches.
        guarded: how many sentences of each evaluation set the pairs were kept free of.
        held_out: number of pairs that were not trained on, as their source is in the development set.
        steps: how many were taken.
        best_step: the step whose weights the student has.
        curve: `step` and development scores of each evaluation, the start first.
        losses: (step, mean loss since the point before).
        versions: of Python and the packages that were used.
        git: commit of the checkout, and whether its code was changed since; None outside one.
    """

    settings: Settings
    digests: dict[str, str]
    corpora: list[UsedCorpus]
    guarded: dict[str, Count]
    held_out: Count
    steps: Count
    best_step: Count
    curve: list[dict[str, Count | Number]]
    losses: list[tuple[Count, Number]]
    versions: dict[str, str]
    git: GitState | None

    @property
    def before(self) -> dict[str, float]:
        """Development scores of the start."""
        return self.curve[0]

    @property
    def after(self) -> dict[str, float]:
        """Development scores of the student."""
        return next(point for point in self.curve if point["step"] == self.best_step)


@dataclass(frozen=True)
class Effort:
    """The cost of a training: seconds in all and for evaluations, number of training sentences, and the machine."""

    seconds: float
    dev_seconds: float
    sentences: int
    hardware: Hardware

    @property
    def dev_share(self) -> float:
        """The share of evaluations in the time, in per cent."""
        return 100 * self.dev_seconds / max(self.seconds, 1e-9)

    @property
    def sentences_per_s(self) -> float:
        """Training sentences a second, without the time of evaluations."""
        return self.sentences / max(self.seconds - self.dev_seconds, 1e-9)


def write_reports(folder: Path, name: str, command: str, trained: Trained, effort: Effort) -> None:
    """Write record, report, curve and model card into the student's folder. Raises OSError."""
    (folder / TRAINING_FILE).write_bytes(as_json(asdict(trained)))
    (folder / REPORT_FILE).write_text(training_report(name, command, trained, effort), encoding="utf-8")
    (folder / CARD_FILE).write_text(model_card(name, command, trained), encoding="utf-8")
    (folder / CURVE_FILE).write_text(draw_curve(trained), encoding="utf-8")


def training_report(name: str, command: str, trained: Trained, effort: Effort) -> str:
    """The Markdown report."""
    settings = trained.settings
    machine = ", ".join(f"{key} {value}" for key, value in effort.hardware.items())
    curve = [[f"{point['step']:,.0f}", *_main_scores(point)] for point in trained.curve]
    parts = [
        f"# {markdown(name)}: training report",
        f"{_title(settings)}, loss {code(str(settings['loss']))}: {trained.steps:,} steps of "
        f"{settings['batch_size']:,} pairs, the best development score after step {trained.best_step:,}.",
        code_block(command),
        f"{effort.seconds:,.0f} s, of which {effort.dev_share:.1f} % for evaluations; "
        f"{effort.sentences_per_s:,.0f} sentences/s ({markdown(machine)}).",
        "## Curve",
        f"![loss and development scores]({CURVE_FILE})",
        *([] if settings["loss"] == "mse" else ["The MSE may rise: this loss does not ask that vectors be as long."]),
        markdown_table(["step", *_MAIN.values()], curve),
        "## Development scores by language",
        "The start's in brackets.",
        _by_language(trained),
        "## Corpora",
        "Pairs after the filters; the share of each corpus in the batches; what was dropped and why (`leakage`: one "
        "side is in an evaluation set).",
        _corpora(trained.corpora),
        f"Evaluation sets: {_guarded(trained)}.",
        f"{trained.held_out:,} pairs were not trained on, because their source sentence is in the development set.",
        "## Settings",
        _settings(trained),
    ]
    return "\n\n".join(parts) + "\n"


def model_card(name: str, command: str, trained: Trained) -> str:
    """The README.md of the student, with the hub's metadata at its head."""
    languages = sorted({corpus.language for corpus in trained.corpora} | {"en"})
    licences = sorted({corpus.licence or "not known (a file of the user's own)" for corpus in trained.corpora})
    restricted = ", ".join(sorted(corpus.name for corpus in trained.corpora if _is_restricted(corpus.licence)))
    corpora = [[c.name, c.language, f"{c.pairs:,}", c.licence or "not known"] for c in trained.corpora]
    scores = [["start", *_main_scores(trained.before)], [name, *_main_scores(trained.after)]]
    parts = [
        hub_metadata(languages),
        f"# {markdown(name)}",
        f"{_title(trained.settings)}: a multilingual student that imitates an English teacher, by "
        "[multilingual knowledge distillation](https://arxiv.org/abs/2004.09813) with",
        code_block(command),
        "```python\nfrom sentence_transformers import SentenceTransformer\n\n"
        'vectors = SentenceTransformer("DIR").encode(["A man plays the guitar.", "Ein Mann spielt Gitarre."])\n```',
        f"How it was trained: [{REPORT_FILE}]({REPORT_FILE}); the record: [{TRAINING_FILE}]({TRAINING_FILE}).",
        "## Data and licences",
        markdown_table(["corpus", "language", "pairs", "licence"], corpora),
        f"Licences of the data: {markdown('; '.join(licences))}. Teacher and start have their own.",
        *([f"**Not for commercial use:** that is the licence of {markdown(restricted)}."] if restricted else []),
        f"{sum(c.dropped.get('leakage', 0) for c in trained.corpora):,} pairs with a sentence of evaluation data were "
        f"left out. Compared with: {_guarded(trained)}.",
        "## Development scores",
        "On held-out pairs, and on STS pairs of the STS Benchmark's training part; no sentence of evaluation data is "
        "among them. The step was chosen on them.",
        markdown_table(["", *_MAIN.values()], scores),
    ]
    return "\n\n".join(parts) + "\n"


def draw_curve(trained: Trained) -> str:
    """Loss, MSE, accuracy and STS over the steps, as an SVG. Raises MissingExtraError."""
    panels = {
        "loss": [_point("loss", step, loss) for step, loss in trained.losses],
        "development MSE x 100": [_point("MSE", point["step"], point["mse"]) for point in trained.curve],
        "development score x 100": [
            _point(label, point["step"], point[key])
            for key, label in _MAIN.items()
            if key != "mse" and key in trained.curve[0]
            for point in trained.curve
        ],
    }
    shown = {title: points for title, points in panels.items() if points}
    return charts.svg(charts.curves(shown, x="step", mark=trained.best_step, mark_name="best step"))


def _point(series: str, step: float, value: float) -> dict[str, Any]:
    return {"series": series, "x": step, "value": value, "low": None, "high": None}


def _guarded(trained: Trained) -> str:
    return markdown(", ".join(f"{name} ({number:,} sentences)" for name, number in trained.guarded.items() if number))


def _title(settings: Settings) -> str:
    return code(f"{settings['student']} <- {settings['teacher']}")


def _main_scores(point: Mapping[str, float]) -> list[str]:
    return [f"{point[key]:.4g}" if key in point else "" for key in _MAIN]


def _by_language(trained: Trained) -> str:
    """Development scores of the student in each language, those of the start in brackets."""
    before, after = trained.before, trained.after
    languages = [key.partition(":")[2] for key in after if key.startswith("mse:")]

    def cell(key: str) -> str:
        return f"{after[key]:.4g} ({before[key]:.4g})" if key in after else ""

    rows = [
        [
            language,
            *(cell(f"{score}:{language}") for score in ("mse", "accuracy_en_xx", "accuracy_xx_en")),
            cell(f"sts:{language}-{language}"),
            cell(f"sts:en-{language}"),
        ]
        for language in languages
    ]
    return markdown_table(["language", *_MAIN.values()], rows)


def _corpora(corpora: Sequence[UsedCorpus]) -> str:
    rows = [
        [
            corpus.name,
            corpus.language,
            f"{corpus.pairs:,}",
            f"{100 * corpus.share:.1f} %",
            ", ".join(f"{reason} {number:,}" for reason, number in corpus.dropped.items() if number),
            corpus.licence or "not known",
        ]
        for corpus in corpora
    ]
    return markdown_table(["corpus", "language", "pairs", "share", "dropped", "licence"], rows)


def _settings(trained: Trained) -> str:
    values = {key: json.dumps(value) for key, value in trained.settings.items() if value not in (None, [], "")}
    values |= {f"SHA-256 of the {name}": digest for name, digest in trained.digests.items()}
    versions = dict(trained.versions)
    if trained.git:
        versions["commit"] = trained.git.commit + (" (changed)" if trained.git.dirty else "")
    return settings_table(values, versions)


@contextmanager
def watch() -> Iterator[Watcher]:
    """A watcher for the time of a `with` block."""
    if not sys.stderr.isatty():
        yield Watcher()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Watcher(bars)


class Watcher(progress.Watcher):
    """Reports the progress of a distillation. `is_silent`: not in this process, which is one on a further GPU."""

    def __init__(self, bars: Bars | None = None, *, is_silent: bool = False):
        super().__init__(bars)
        self._is_silent = is_silent
        self._counts: dict[str, tuple[Callable[[str, int, int | None], None], int]] = {}

    def note(self, message: str) -> None:
        """Print a line."""
        if not self._is_silent:
            super().note(message)

    def count(self, what: str, done: int, total: int | None) -> None:
        """Report that `done` of `total` items are done; None: the total is not known."""
        if what not in self._counts:
            self._counts[what] = self._shower(), -1
        show, last = self._counts[what]
        if total is None:
            show(f"{what}: {done:,}", done, None)
            return
        line = _LINES * done // max(total, 1)
        if line > last and total > _WORTH_A_LINE and not self._bars:
            self.note(f"{what}: {done:,} of {total:,}")
        self._counts[what] = show, line
        show(what, done, total)

    def training(self, first: int, total: int, sentences: int) -> Callable[[int, float], None]:
        """A function to call after every step, with its number and its loss.

        Args:
            first: steps that were taken before.
            total: steps in all.
            sentences: of a step.
        """
        show = self._shower()
        start = time.perf_counter()
        every = -(-total // _LINES)  # rounded up

        def step(number: int, loss: float) -> None:
            speed = sentences * (number - first) / max(time.perf_counter() - start, 1e-9)
            line = f"loss {loss:.4f}, {speed:,.0f} sentences/s"
            if not self._bars and (number % every == 0 or number == total):
                self.note(f"step {number:,} of {total:,} ({100 * number / total:.0f} %): {line}")
            show(line, number, total)

        return step

    def _shower(self) -> Callable[[str, int, int | None], None]:
        """A function that updates a new bar. The bar vanishes when it is full."""
        bars = None if self._is_silent else self._bars
        if bars is None:
            return lambda text, done, total: None
        task = bars.add_task("", total=None, visible=False)

        def show(text: str, done: int, total: int | None) -> None:
            bars.update(task, description=text, completed=done, total=total, visible=total is None or done < total)

        return show
