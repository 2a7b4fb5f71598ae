"""Any transformer, pooled without training: `mean-pooling:LOCATION`, the paper's mBERT mean and XLM-R mean.

Mean: the average of the last hidden states over all tokens of a sentence, the special ones included and padding left
out (Reimers & Gurevych 2020, section 4).
"""

from __future__ import annotations

from typing import Any, Literal

from baselines.adapters.huggingface import Precision, Source, open_model
from baselines.adapters.sentence_transformer import SentenceTransformerEncoder
from harness.encoders.registry import EncoderInfo, never

Pooling = Literal["mean", "cls", "max"]


def load(
    location: str,
    *,
    name: str | None = None,
    pooling: Pooling = "mean",
    prompt: str = "",
    max_length: int | None = None,
    precision: Precision = "fp32",
    revision: str | None = None,
    device: str | None = None,
    batch_size: int = 32,
    trust_remote_code: bool = False,
) -> SentenceTransformerEncoder:
    """Load a transformer's last hidden states with pooling on top; a trained pooling in the folder is not used.

    Args:
        location, name, revision, device, batch_size, trust_remote_code: as of `sentence_transformer.load`.
        pooling: mean or maximum over the tokens, or the first token alone (`cls`).
        prompt: what every sentence begins with.
        max_length: tokens after which a sentence is cut, special ones included. By default as many as tokenizer and
            model take (512 for mBERT and XLM-R), as sentence-transformers does with a bare transformer.
        precision: of the transformer; pooling runs in float32.

    Raises:
        InputError: no such model, a hub that cannot be reached, or an option that does not fit the model.
    """

    def open_source(source: Source) -> Any:
        import torch
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule
        from sentence_transformers.sentence_transformer.modules import Transformer

        where = {
            "revision": source.revision,
            "local_files_only": source.is_local,
            "trust_remote_code": trust_remote_code,
        }
        transformer = Transformer(
            source.path,
            model_kwargs={**where, "dtype": torch.float32},
            processor_kwargs=dict(where),
            config_kwargs=dict(where),
        )
        pooled = PoolingModule(transformer.get_embedding_dimension(), pooling)
        return SentenceTransformer(modules=[transformer, pooled], device=device)

    model, source = open_model(location, revision, open_source)
    return SentenceTransformerEncoder(
        model,
        f"mean-pooling/{source.identity}|pooling:{pooling}",
        name=name or location,
        prompt=prompt,
        max_length=max_length,
        precision=precision,
        batch_size=batch_size,
    )


mean_pooling = EncoderInfo(
    factory=load,
    description="any transformer with mean, max or first-token pooling: a hub id or a folder",
    backend="transformers",
    is_kind=True,
    location_form="HUB_ID-or-DIR",
    extra="torch",
    modules=("sentence_transformers",),
    runs_code=never,
)
