"""What a distillation leaves beside the student: its record, a training report, a curve and the model card."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from baselines.model_folder import TRAINING_FILE
from harness.escaping import code, code_block, markdown
from harness.results import GitState
from harness.schema import Count, Number

REPORT_FILE, CURVE_FILE, CARD_FILE = "report.md", "curve.png", "README.md"

_MAIN = {
    "mse": "MSE x 100",
    "accuracy_en_xx": "accuracy en->xx",
    "accuracy_xx_en": "accuracy xx->en",
    "sts_same": "STS same language",
    "sts_cross": "STS cross-lingual",
}
_NON_COMMERCIAL = re.compile(r"\bNC\b|non-?commercial|\bresearch\b", re.IGNORECASE)


def _is_restricted(licence: str) -> bool:
    """Whether a licence forbids commercial use; what it says was left out of the source does not count."""
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
    """The record of a distillation. Equal trainings have equal records; no machine path and no time is in it.

    Attributes:
        settings: everything that was asked for, with digests of teacher and data.
        digests: of the start, and of the projection of the teacher's vectors, if there is one.
        corpora: what the batches were made of.
        guarded: how many sentences of each evaluation set the pairs were kept free of.
        held_out: pairs that were not trained on because their source is in the development set.
        steps: that were taken.
        best_step: the one whose weights the student has.
        curve: `step` and development scores of each evaluation, the start first.
        losses: (step, mean loss since the point before).
        versions: of Python and the packages that had a part in it.
        git: commit of the checkout, and whether its code was changed since; None outside one.
    """

    settings: dict[str, Any]
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

    def to_json(self) -> bytes:
        """As the record is stored, keys sorted."""
        return (json.dumps(asdict(self), indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


@dataclass(frozen=True)
class Effort:
    """What a training took: seconds in all and for evaluations, sentences that were trained on, and the machine."""

    seconds: float
    dev_seconds: float
    sentences: int
    hardware: Mapping[str, Any]

    @property
    def dev_share(self) -> float:
        """Of the time, in per cent."""
        return 100 * self.dev_seconds / max(self.seconds, 1e-9)

    @property
    def sentences_per_s(self) -> float:
        """Trained on, evaluations not counted."""
        return self.sentences / max(self.seconds - self.dev_seconds, 1e-9)


def write_reports(folder: Path, name: str, command: str, trained: Trained, effort: Effort) -> None:
    """Write record, report, curve and model card into the student's folder. Raises OSError."""
    (folder / TRAINING_FILE).write_bytes(trained.to_json())
    (folder / REPORT_FILE).write_text(training_report(name, command, trained, effort), encoding="utf-8")
    (folder / CARD_FILE).write_text(model_card(name, command, trained), encoding="utf-8")
    draw_curve(trained, folder / CURVE_FILE)


def training_report(name: str, command: str, trained: Trained, effort: Effort) -> str:
    """The Markdown report."""
    settings = trained.settings
    machine = ", ".join(f"{key} {value}" for key, value in effort.hardware.items())
    lines = [
        f"# {markdown(name)}: training report",
        "",
        f"{_title(settings)}, loss {code(settings['loss'])}: {trained.steps:,} steps of "
        f"{settings['batch_size']:,} pairs, the best development score after step {trained.best_step:,}.",
        "",
        code_block(command),
        "",
        f"{effort.seconds:,.0f} s, of which {effort.dev_share:.1f} % for evaluations; "
        f"{effort.sentences_per_s:,.0f} sentences/s ({markdown(machine)}).",
        "",
        "## Curve",
        "",
        f"![loss and development scores]({CURVE_FILE})",
        "",
        *_table(["step", *_MAIN.values()], [[f"{p['step']:,.0f}", *_main_scores(p)] for p in trained.curve]),
        "",
        "## Development scores by language",
        "",
        *_by_language(trained),
        "",
        "## Corpora",
        "",
        "Pairs after the filters; the share of each corpus in the batches; what was dropped and why (`leakage`: one "
        "side is in an evaluation set).",
        "",
        *_corpora(trained.corpora),
        "",
        f"Evaluation sets: {_guarded(trained)}.",
        "",
        f"{trained.held_out:,} pairs were not trained on, because their source sentence is in the development set.",
        "",
        "## Settings",
        "",
        *_settings(trained),
    ]
    return "\n".join(lines) + "\n"


def model_card(name: str, command: str, trained: Trained) -> str:
    """The README.md of the student, with the hub's metadata at its head."""
    languages = sorted({corpus.language for corpus in trained.corpora} | {"en"})
    licences = sorted({corpus.licence or "not known (a file of the user's own)" for corpus in trained.corpora})
    restricted = ", ".join(sorted(corpus.name for corpus in trained.corpora if _is_restricted(corpus.licence)))
    lines = [
        "---",
        "library_name: sentence-transformers",
        "pipeline_tag: sentence-similarity",
        "tags: [sentence-transformers, feature-extraction, sentence-similarity]",
        f"language: [{', '.join(json.dumps(language) for language in languages)}]",
        "---",
        "",
        f"# {markdown(name)}",
        "",
        f"{_title(trained.settings)}: a multilingual student that imitates an English teacher, by "
        "[multilingual knowledge distillation](https://arxiv.org/abs/2004.09813) with",
        "",
        code_block(command),
        "",
        "```python",
        "from sentence_transformers import SentenceTransformer",
        "",
        'vectors = SentenceTransformer("DIR").encode(["A man plays the guitar.", "Ein Mann spielt Gitarre."])',
        "```",
        "",
        f"How it was trained: [{REPORT_FILE}]({REPORT_FILE}); the record: [{TRAINING_FILE}]({TRAINING_FILE}).",
        "",
        "## Data and licences",
        "",
        *_table(
            ["corpus", "language", "pairs", "licence"],
            [[c.name, c.language, f"{c.pairs:,}", c.licence or "not known"] for c in trained.corpora],
        ),
        "",
        f"Licences of the data: {markdown('; '.join(licences))}. Teacher and start have their own.",
        *(["", f"**Not for commercial use:** that is the licence of {markdown(restricted)}."] if restricted else []),
        "",
        f"{sum(c.dropped.get('leakage', 0) for c in trained.corpora):,} pairs with a sentence of evaluation data were "
        f"left out. Compared with: {_guarded(trained)}.",
        "",
        "## Development scores",
        "",
        "On held-out pairs, and on STS pairs of the STS Benchmark's training part; no sentence of evaluation data is "
        "among them. The step was chosen on them.",
        "",
        *_table(
            ["", *_MAIN.values()], [["start", *_main_scores(trained.before)], [name, *_main_scores(trained.after)]]
        ),
    ]
    return "\n".join(lines) + "\n"


def draw_curve(trained: Trained, path: Path) -> None:
    """Loss and MSE, and accuracy and STS, over the steps, as a PNG. Needs matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    left.plot(*zip(*trained.losses, strict=True), label="loss", color="tab:grey")
    left.set_ylabel("loss")
    steps = [point["step"] for point in trained.curve]
    mse = left.twinx()
    mse.plot(steps, [point["mse"] for point in trained.curve], "o-", label="dev MSE x 100", color="tab:red")
    mse.set_ylabel("dev MSE x 100")
    left.figure.legend(*_handles(left, mse), loc="outside upper left", ncols=2)
    for key, label in _MAIN.items():
        if key != "mse" and key in trained.curve[0]:
            right.plot(steps, [point[key] for point in trained.curve], "o-", label=f"dev {label}")
    right.set_ylabel("x 100")
    right.axvline(trained.best_step, color="tab:grey", linestyle=":", label="best step")
    right.legend()
    for axes in (left, right):
        axes.set_xlabel("step")
    # Without the version of matplotlib in it, equal curves are equal files.
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _handles(*all_axes: Any) -> tuple[list[Any], list[str]]:
    pairs = [axes.get_legend_handles_labels() for axes in all_axes]
    return [handle for handles, _ in pairs for handle in handles], [label for _, labels in pairs for label in labels]


def _guarded(trained: Trained) -> str:
    return markdown(", ".join(f"{name} ({number:,} sentences)" for name, number in trained.guarded.items() if number))


def _title(settings: Mapping[str, Any]) -> str:
    return code(f"{settings['student']} <- {settings['teacher']}")


def _main_scores(point: Mapping[str, float]) -> list[str]:
    return [f"{point[key]:.4g}" if key in point else "" for key in _MAIN]


def _by_language(trained: Trained) -> list[str]:
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
    return ["The start's in brackets.", "", *_table(["language", *_MAIN.values()], rows)]


def _corpora(corpora: Sequence[UsedCorpus]) -> list[str]:
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
    return _table(["corpus", "language", "pairs", "share", "dropped", "licence"], rows)


def _settings(trained: Trained) -> list[str]:
    values = {key: json.dumps(value) for key, value in trained.settings.items() if value not in (None, [], "")}
    values |= {f"SHA-256 of the {what}": digest for what, digest in trained.digests.items()}
    versions = dict(trained.versions)
    if trained.git:
        versions["commit"] = trained.git.commit + (" (changed)" if trained.git.dirty else "")
    rows = [[markdown(key), code(value, in_table=True)] for key, value in values.items()]
    rows += [[markdown(package), markdown(number)] for package, number in versions.items()]
    return _grid(["setting", "value"], rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Of cells that are text."""
    return _grid([*map(markdown, header)], [[*map(markdown, row)] for row in rows])


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Of cells that are Markdown."""
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]
