"""Short names for the paper's systems and the common multilingual models since.

Those on the Hugging Face hub are taken from its local cache if they are there. Those that were never published are
trained here, into `models/NAME` of the cache folder (`$HARNESS_CACHE`); a copy of such a folder from another machine
does as well. Sizes are what a first use downloads, in MB (10^6 bytes).
"""

from __future__ import annotations

from functools import partial, wraps
from pathlib import Path
from typing import Any

from baselines import mean_pooling, sentence_transformer
from baselines.huggingface import cached_snapshot, refuse_folder
from baselines.sentence_transformer import SentenceTransformerEncoder
from harness.cache import default_cache_dir
from harness.errors import InputError
from harness.registry import EncoderInfo, never


def _alias(
    location: str, description: str, *, dim: int, licence: str, mb: float, prompt: str | None = None, mean: bool = False
) -> EncoderInfo:
    load = mean_pooling.load if mean else sentence_transformer.load

    def missing_mb(hub_id: str | None) -> float:
        return 0.0 if cached_snapshot(location) else mb

    @wraps(load)
    def of_hub(hub_id: str, **options: Any) -> SentenceTransformerEncoder:
        refuse_folder(hub_id)
        return load(hub_id, **options)

    return EncoderInfo(
        factory=of_hub,
        description=description,
        backend="transformers" if mean else "sentence-transformers",
        location=location,
        options={} if prompt is None else {"prompt": prompt},
        dim=dim,
        licence=licence,
        extra="torch",
        modules=("sentence_transformers",),
        missing_mb=missing_mb,
        fetch=partial(of_hub, location),
        runs_code=never,
    )


def _trained(
    name: str,
    description: str,
    data: str,
    command: str,
    *,
    starts: tuple[tuple[str, float], ...],
    data_mb: float,
    dim: int = 768,
) -> EncoderInfo:
    """A model that `leaderboard COMMAND --name NAME` makes out of hub models and data sets.

    `starts` are the hub models' ids and megabytes, `data` what `leaderboard data fetch` gets, of `data_mb` megabytes.
    """
    command = f"leaderboard data fetch {data} && leaderboard {command} --name {name}"

    def folder() -> Path:
        return default_cache_dir() / "models" / name

    # The registry reads the options from the signature, which is that of the wrapped function: all but the location.
    @wraps(partial(sentence_transformer.load, name), assigned=())
    def load(**options: Any) -> SentenceTransformerEncoder:
        if not folder().is_dir():
            raise InputError(f"encoder {name!r} is not public, make it first: {command}")
        return sentence_transformer.load(str(folder()), **options)

    def missing_mb(location: str | None) -> float:
        if folder().is_dir():
            return 0.0
        return data_mb + sum(mb for start, mb in starts if not cached_snapshot(start))

    return EncoderInfo(
        factory=load,
        description=description,
        backend="sentence-transformers",
        dim=dim,
        extra="train",
        modules=("sentence_transformers",),
        missing_mb=missing_mb,
        recipe=lambda: None if folder().is_dir() else command,
        runs_code=never,
    )


_MBERT = ("google-bert/bert-base-multilingual-cased", 717.0)
_DISTILMBERT = ("distilbert/distilbert-base-multilingual-cased", 542.0)
_XLMR = ("FacebookAI/xlm-roberta-base", 1_130.0)
_XLMR_LARGE = ("FacebookAI/xlm-roberta-large", 2_262.0)
_KLUE_ROBERTA = ("klue/roberta-base", 446.0)
_SBERT = ("sentence-transformers/bert-base-nli-stsb-mean-tokens", 439.0)
# Data sets by name and their megabytes, of the Korean and the parallel ones estimated.
_NLI_STS = ("allnli stsb sts17", 340.0)
_NLI_STS_KO = ("kornli korsts sts17", 180.0)
_PARALLEL = ("TED2020 --languages ar,de,es,fr,it,nl,ru,tr,zh", 300.0)


labse = _alias("sentence-transformers/LaBSE", "LaBSE, 109 languages", dim=768, licence="Apache-2.0", mb=1_900)
mbert_mean = _alias(
    _MBERT[0],
    "mBERT, mean of the last layer, 104 languages",
    dim=768,
    licence="Apache-2.0",
    mb=_MBERT[1],
    mean=True,
)
xlmr_mean = _alias(
    _XLMR[0],
    "XLM-R base, mean of the last layer, 100 languages",
    dim=768,
    licence="MIT",
    mb=_XLMR[1],
    mean=True,
)
sbert_nli_stsb = _alias(
    _SBERT[0],
    "SBERT-nli-stsb, English: the paper's teacher",
    dim=768,
    licence="Apache-2.0",
    mb=_SBERT[1],
)
xlmr_nli_stsb_distilled = _alias(
    "sentence-transformers/stsb-xlm-r-multilingual",
    "XLM-R <- SBERT-nli-stsb, 50 languages (the paper trained on ten)",
    dim=768,
    licence="Apache-2.0",
    mb=1_126,
)
xlmr_nli_stsb_distilled_ko = _alias(
    "sentence-transformers/xlm-r-base-en-ko-nli-ststb",
    "XLM-R <- SBERT-nli-stsb, English and Korean",
    dim=768,
    licence="Apache-2.0",
    mb=1_126,
)
xlmr_paraphrases_distilled = _alias(
    "sentence-transformers/paraphrase-xlm-r-multilingual-v1",
    "XLM-R <- SBERT-paraphrases, 50 languages",
    dim=768,
    licence="Apache-2.0",
    mb=1_126,
)
mbert_nli_stsb = _trained(
    "mbert-nli-stsb",
    "mBERT tuned on English NLI and STSb",
    _NLI_STS[0],
    f"train-baseline {_MBERT[0]}",
    starts=(_MBERT,),
    data_mb=_NLI_STS[1],
)
xlmr_nli_stsb = _trained(
    "xlmr-nli-stsb",
    "XLM-R tuned on English NLI and STSb",
    _NLI_STS[0],
    f"train-baseline {_XLMR[0]}",
    starts=(_XLMR,),
    data_mb=_NLI_STS[1],
)
mbert_distilled = _trained(
    "mbert-distilled",
    "mBERT <- SBERT-nli-stsb",
    _PARALLEL[0],
    f"distill --teacher sbert-nli-stsb --student {_MBERT[0]}",
    starts=(_MBERT, _SBERT),
    data_mb=_PARALLEL[1],
)
distilmbert_distilled = _trained(
    "distilmbert-distilled",
    "DistilmBERT <- SBERT-nli-stsb",
    _PARALLEL[0],
    f"distill --teacher sbert-nli-stsb --student {_DISTILMBERT[0]}",
    starts=(_DISTILMBERT, _SBERT),
    data_mb=_PARALLEL[1],
)
xlmr_nli_sts_ko = _trained(
    "xlmr-nli-sts-ko",
    "XLM-R tuned on KorNLI and KorSTS",
    _NLI_STS_KO[0],
    f"train-baseline {_XLMR[0]} --language ko",
    starts=(_XLMR,),
    data_mb=_NLI_STS_KO[1],
)
xlmr_large_nli_sts_ko = _trained(
    "xlmr-large-nli-sts-ko",
    "XLM-R large tuned on KorNLI and KorSTS",
    _NLI_STS_KO[0],
    f"train-baseline {_XLMR_LARGE[0]} --language ko",
    starts=(_XLMR_LARGE,),
    data_mb=_NLI_STS_KO[1],
    dim=1024,
)
# The Korean RoBERTa of the paper's Table 7 is the KorNLU authors' own, whose weights are not public.
klue_roberta_nli_sts_ko = _trained(
    "klue-roberta-nli-sts-ko",
    "KLUE's Korean RoBERTa tuned on KorNLI and KorSTS",
    _NLI_STS_KO[0],
    f"train-baseline {_KLUE_ROBERTA[0]} --language ko",
    starts=(_KLUE_ROBERTA,),
    data_mb=_NLI_STS_KO[1],
)
# The id without a suffix: the one whose figures sentence-transformers publishes. -v2 is another, weaker training run.
distiluse = _alias(
    "sentence-transformers/distiluse-base-multilingual-cased",
    "DistilmBERT <- mUSE, 13 languages",
    dim=512,
    licence="Apache-2.0",
    mb=543,
)
paraphrase_multilingual_minilm = _alias(
    "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
    "multilingual MiniLM <- paraphrase-MiniLM, 50 languages",
    dim=384,
    licence="Apache-2.0",
    mb=485,
)
paraphrase_multilingual_mpnet = _alias(
    "sentence-transformers/paraphrase-multilingual-mpnet-base-v2",
    "XLM-R <- paraphrase-mpnet, 50 languages",
    dim=768,
    licence="Apache-2.0",
    mb=1_126,
)
e5_small = _alias(
    "intfloat/multilingual-e5-small", "multilingual-e5-small", dim=384, licence="MIT", mb=493, prompt="query: "
)
e5_base = _alias(
    "intfloat/multilingual-e5-base", "multilingual-e5-base", dim=768, licence="MIT", mb=1_134, prompt="query: "
)
bge_m3 = _alias("BAAI/bge-m3", "BGE-M3, dense vectors", dim=1024, licence="MIT", mb=2_293)
static_similarity_mrl_multilingual = _alias(
    "sentence-transformers/static-similarity-mrl-multilingual-v1",
    "static token vectors, 50 languages, truncatable",
    dim=1024,
    licence="Apache-2.0",
    mb=436,
)
potion_multilingual = _alias(
    "minishlab/potion-multilingual-128M", "static token vectors, 101 languages", dim=256, licence="MIT", mb=530
)
