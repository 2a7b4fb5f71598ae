"""Which tasks, subsets and metrics of mteb mean the same as ours, and what mteb calls them.

STS17: the same 250 pairs a set, `cosine_spearman` and `cosine_pearson` as ours / 100. Tatoeba: LASER's pairs, xx -> en
only; `accuracy`, and `f1` weighted by class where every English line is a class. mteb's copies of the data differ from
the published files in blanks: its Tatoeba sentences end with a line end, some Arabic ones of STS17 lack a blank at
either end.

Nothing else is the same: mteb's BUCC does no mining, its KorSTS has three pairs fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.data.tatoeba import GROUPS

SPLIT = "test"


@dataclass(frozen=True)
class MtebTask:
    """A task of mteb.

    Attributes:
        name: mteb's.
        task: ours.
        metrics: our metric -> mteb's.
        subsets: our subset -> mteb's.
        main_score: the metric that mteb ranks by.
        revision: of the data set, in mteb 2.
        languages: our subset -> mteb's codes of its languages, for tasks that are exported.
    """

    name: str
    task: str
    metrics: Mapping[str, str]
    subsets: Mapping[str, str]
    main_score: str
    revision: str = ""
    languages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_exported(self) -> bool:
        """Whether we measure the same; what we do not measure is imported only."""
        return bool(self.languages)


_STS = {
    **{name: name for name in ("en-en", "es-es", "ar-ar", "en-ar", "en-de", "en-tr")},
    **{"en-es": "es-en", "en-fr": "fr-en", "en-it": "it-en", "en-nl": "nl-en"},
}
_STS_LANGUAGES = {
    **{"en": "eng-Latn", "es": "spa-Latn", "ar": "ara-Arab", "de": "deu-Latn", "tr": "tur-Latn"},
    **{"fr": "fra-Latn", "it": "ita-Latn", "nl": "nld-Latn"},
}
# mteb's scripts of LASER's languages; all others are written in Latin letters.
_SCRIPTS = {
    "Arab": "ara arq arz pes uig urd",
    "Armn": "hye",
    "Beng": "ben",
    "Cyrl": "bel bul kaz mhr mkd mon orv rus srp tat ukr",
    "Deva": "awa hin mar max",
    "Ethi": "amh",
    "Geor": "kat",
    "Grek": "ell",
    "Hang": "kor",
    "Hans": "cmn wuu",
    "Hant": "yue",
    "Hebr": "heb yid",
    "Jpan": "jpn",
    "Khmr": "khm",
    "Mlym": "mal",
    "Taml": "tam",
    "Telu": "tel",
    "Tfng": "ber",
    "Thai": "tha",
}
_SCRIPT_OF = {code: script for script, codes in _SCRIPTS.items() for code in codes.split()}
_BUCC = {name: name for name in ("de-en", "fr-en", "ru-en", "zh-en")}

TASKS = (
    MtebTask(
        name="STS17",
        task="sts17",
        metrics={"spearman": "cosine_spearman", "pearson": "cosine_pearson"},
        subsets={**_STS, "ko-ko": "ko-ko"},
        main_score="cosine_spearman",
        revision="faeb762787bd10488a50c8b5be4a3b82e411949c",
        languages={
            ours: tuple(dict.fromkeys(_STS_LANGUAGES[code] for code in theirs.split("-")))
            for ours, theirs in _STS.items()
        },
    ),
    MtebTask(
        name="Tatoeba",
        task="tatoeba",
        metrics={"accuracy_xx_en": "accuracy", "f1_weighted_xx_en": "f1"},
        subsets={code: f"{code}-eng" for code in GROUPS["all"]},
        main_score="f1",
        revision="69e8f12da6e31d59addadda9a9c8a2e601a0e282",
        languages={code: (f"{code}-{_SCRIPT_OF.get(code, 'Latn')}", "eng-Latn") for code in GROUPS["all"]},
    ),
    MtebTask(name="BUCC", task="mteb-bucc", metrics={"f1_weighted_top1": "f1"}, subsets=_BUCC, main_score="f1"),
    MtebTask(name="BUCC.v2", task="mteb-bucc-v2", metrics={"f1_weighted_top1": "f1"}, subsets=_BUCC, main_score="f1"),
)
BY_MTEB_NAME = {task.name: task for task in TASKS}
EXPORTED = {task.task: task for task in TASKS if task.is_exported}
