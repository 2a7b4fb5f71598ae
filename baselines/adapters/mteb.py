"""Models as `mteb` opens and runs them: `mteb:NAME`, a model that mteb knows, another one of the hub, or a folder.

Library: Muennighoff et al. 2023, "MTEB: Massive Text Embedding Benchmark" (https://github.com/embeddings-benchmark/mteb).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Literal

import numpy as np

from baselines.adapters.huggingface import Source, legal_text, open_model, quiet
from harness.core.errors import InputError, one_line
from harness.core.files import user_path
from harness.encoders.info import EncoderInfo, always

PromptType = Literal["query", "document"]


class MtebEncoder:
    """Sentences to vectors through an object of mteb's interface (`mteb.EncoderProtocol`); `lang` is ignored.

    mteb tells a model which task it works for, so that it may choose a prompt. An encoder here knows of no task: every
    sentence is encoded as one of `task` and of `prompt_type`.
    """

    uses_lang = False

    def __init__(
        self,
        model: Any,
        identity: str,
        *,
        name: str,
        task: str = "STS17",
        prompt_type: PromptType | None = None,
        batch_size: int = 32,
    ):
        import mteb
        from mteb.models import EncoderProtocol
        from mteb.types import PromptType

        if batch_size < 1:
            raise InputError(f"{name}: batch_size must be at least 1, not {batch_size}")
        if not isinstance(model, EncoderProtocol):
            raise InputError(f"{name}: {type(model).__name__} of mteb gives no vectors of sentences")
        try:
            self._task = mteb.get_task(task).metadata
        except KeyError:
            raise InputError(f"{name}: mteb has no task {task!r}") from None
        self.name = name
        self._model = model
        self._prompt_type = PromptType(prompt_type) if prompt_type else None
        self._batch_size = batch_size
        self.fingerprint = f"{identity}|mteb:{version('mteb')}|task:{task}|prompt_type:{prompt_type}"
        self.dim = self._vectors(["a"]).shape[-1]

    @property
    def device(self) -> str | None:
        """Where the model runs, as PyTorch names it; None where it does not say."""
        device = getattr(getattr(self._model, "model", None), "device", None)
        return None if device is None else str(device)

    def encode(self, sentences: Sequence[str], *, lang: str | None = None) -> np.ndarray:
        """A float32 array of shape (len(sentences), dim)."""
        if not sentences:
            return np.empty((0, self.dim), dtype=np.float32)
        return self._vectors([legal_text(text) for text in sentences])

    def _vectors(self, texts: list[str]) -> np.ndarray:
        import torch
        from datasets import Dataset  # type: ignore[import-untyped]
        from torch.utils.data import DataLoader

        vectors = self._model.encode(
            DataLoader(Dataset.from_dict({"text": texts}), batch_size=self._batch_size),
            task_metadata=self._task,
            hf_split="test",
            hf_subset="default",
            prompt_type=self._prompt_type,
            batch_size=self._batch_size,
            show_progress_bar=False,
        )
        if isinstance(vectors, torch.Tensor):
            vectors = vectors.detach().float().cpu().numpy()
        return np.asarray(vectors, dtype=np.float32)


def load(
    location: str,
    *,
    name: str | None = None,
    revision: str | None = None,
    task: str = "STS17",
    prompt_type: PromptType | None = None,
    device: str | None = None,
    batch_size: int = 32,
    trust_remote_code: bool = False,
) -> MtebEncoder:
    """Open a model as mteb does.

    Args:
        location: a model's name in mteb's registry, which knows its prompts; else the id of a sentence-transformers
            model on the hub, or a folder with one.
        name: under which results are stored.
        revision: branch, tag or commit; of a registered model only the registered one.
        task: the task of mteb whose prompt the model takes, if it has one for it.
        prompt_type: whether sentences are queries or documents, for models with prompts for these.
        device, trust_remote_code: as of `sentence_transformer.load`.
        batch_size: sentences that run at a time.

    Raises:
        InputError: no such model, revision or task, a hub that cannot be reached, a model that wants to run its own
            code or that is no encoder.
    """
    import mteb

    try:
        meta: Any = None if user_path(location).is_dir() else mteb.get_model_meta(location, revision)
    except KeyError:
        meta = None
    except ValueError as error:  # registered with another revision
        raise InputError(f"mteb:{location}: {one_line(error)}") from None
    if meta is None:
        model, identity = _open_other(location, revision, device, trust_remote_code)
    else:
        if _runs_remote_code(meta) and not trust_remote_code:
            raise InputError(
                f"mteb:{location} runs code that comes with the model; read it, then add trust_remote_code=true"
            )
        model, identity = _open_registered(meta, device), f"{meta.name}@{meta.revision}"
    return MtebEncoder(
        model,
        f"mteb/{identity}",
        name=name or location,
        task=task,
        prompt_type=prompt_type,
        batch_size=batch_size,
    )


def _open_registered(meta: Any, device: str | None) -> Any:
    """A model of mteb's registry."""
    import mteb

    if meta.loader is mteb.SentenceTransformerEncoderWrapper:

        def open_source(source: Source) -> Any:
            options = {"local_files_only": True} if source.is_local else {}
            return mteb.get_model(meta.name, meta.revision, device, **options)

        return open_model(meta.name, meta.revision, open_source)[0]
    try:
        with quiet():
            return mteb.get_model(meta.name, meta.revision, device)
    except Exception as error:  # a loader may fail in any way
        raise InputError(f"mteb cannot load the model {meta.name!r}: {one_line(error)}") from error


def _open_other(location: str, revision: str | None, device: str | None, trust_remote_code: bool) -> tuple[Any, str]:
    """A model that mteb does not know, in the wrapper that mteb puts around such, and what identifies it."""
    from mteb import SentenceTransformerEncoderWrapper

    def open_source(source: Source) -> Any:
        return SentenceTransformerEncoderWrapper(
            source.path,
            revision=source.revision,
            device=device,
            trust_remote_code=trust_remote_code,
            local_files_only=source.is_local,
        )

    model, source = open_model(location, revision, open_source)
    return model, source.identity


def _runs_remote_code(meta: Any) -> bool:
    """Whether a registered model's loader asks for it, in its arguments or in its own lines."""
    loader = getattr(meta.loader, "func", meta.loader)
    given = {**getattr(meta.loader, "keywords", {}), **meta.loader_kwargs}
    if "trust_remote_code" in given:
        return bool(given["trust_remote_code"])
    try:
        lines = inspect.getsource(loader).replace(" ", "")
    except (TypeError, OSError):  # no loader, or none with a source
        return False
    return any(text in lines for text in ("trust_remote_code=True", "trust_remote_code:bool=True"))


mteb = EncoderInfo(
    factory=load,
    description="any model of mteb, run as mteb runs it: its name, a hub id or a folder",
    backend="mteb",
    is_kind=True,
    location_form="NAME-or-DIR",
    extra="mteb",
    modules=("mteb",),
    runs_code=always,  # each of its models has a loader of its own
)
