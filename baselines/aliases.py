"""Short names for models on the Hugging Face hub: the paper's systems and the common multilingual ones since.

A model is taken from the hub's local cache if it is there. Sizes are what a first use downloads, in MB (10^6 bytes).
"""

from __future__ import annotations

from functools import partial

from baselines import mean_pooling, sentence_transformer
from baselines.huggingface import cached_snapshot
from harness.registry import EncoderInfo


def _alias(
    location: str, description: str, *, dim: int, licence: str, mb: float, prompt: str | None = None, mean: bool = False
) -> EncoderInfo:
    load = mean_pooling.load if mean else sentence_transformer.load

    def missing_mb(hub_id: str | None) -> float:
        return 0.0 if cached_snapshot(location) else mb

    return EncoderInfo(
        factory=load,
        description=description,
        backend="transformers" if mean else "sentence-transformers",
        location=location,
        options={} if prompt is None else {"prompt": prompt},
        dim=dim,
        licence=licence,
        extra="torch",
        modules=("sentence_transformers",),
        missing_mb=missing_mb,
        fetch=partial(load, location),
    )


labse = _alias("sentence-transformers/LaBSE", "LaBSE, 109 languages", dim=768, licence="Apache-2.0", mb=1_900)
mbert_mean = _alias(
    "google-bert/bert-base-multilingual-cased",
    "mBERT, mean of the last layer, 104 languages",
    dim=768,
    licence="Apache-2.0",
    mb=717,
    mean=True,
)
xlmr_mean = _alias(
    "FacebookAI/xlm-roberta-base",
    "XLM-R base, mean of the last layer, 100 languages",
    dim=768,
    licence="MIT",
    mb=1_130,
    mean=True,
)
sbert_nli_stsb = _alias(
    "sentence-transformers/bert-base-nli-stsb-mean-tokens",
    "SBERT-nli-stsb, English: the paper's teacher",
    dim=768,
    licence="Apache-2.0",
    mb=439,
)
xlmr_nli_stsb_distilled = _alias(
    "sentence-transformers/stsb-xlm-r-multilingual",
    "XLM-R <- SBERT-nli-stsb, 50 languages",
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
