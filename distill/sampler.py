"""The batches of a training: which pairs of which corpora they have, and their texts as a student's input."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from distill.vocabulary import Tokens, tokenise
from harness.core.errors import InputError, unknown_name

if TYPE_CHECKING:
    from torch import Tensor

    from distill.pairs import Pairs
    from distill.recipe import Recipe
    from distill.report import Watcher

Features = Callable[[NDArray[np.int64]], "dict[str, Tensor]"]
"""Turns numbers of texts into the input of a student."""

_CHUNK = 4096  # steps counted at a time


class MixedBatches:
    """Batches of pair numbers; the pairs of all corpora are numbered one corpus after the other.

    Over the whole run a corpus is drawn from in proportion to size ** temperature x weight (temperature 0: as often as
    any other, as in Reimers and Gurevych 2020; 1: in proportion to its size), but no pair of it more than
    `max_repeats` times; what a small corpus cannot give is shared out among the others. Every batch has each
    corpus's share of it, rounded up or down (systematic sampling). The pairs of a corpus are drawn in an order that is
    shuffled anew each time all of them have been seen.

    Batch s is a function of the arguments and s: a run that is resumed at s goes on exactly.

    Args:
        sizes: pairs of each corpus; a corpus may have none.
        batch_size: pairs in a batch.
        steps: number of batches.
        seed: of all that is random.
        temperature: exponent of the size.
        max_repeats: how often a pair is seen in the run, at most.
        weights: factor of each corpus, 0 to leave it out; all 1 if not given.

    Attributes:
        draws: int64, how many pairs of each corpus the run has, repeats included. They add up to steps x batch_size.

    Raises:
        InputError: fewer pairs than a batch has, or than the run has with `max_repeats`; an argument out of its range.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        batch_size: int,
        steps: int,
        seed: int,
        temperature: float = 0.0,
        max_repeats: int = 20,
        weights: Sequence[float] | None = None,
    ):
        self._sizes = np.asarray(sizes, dtype=np.int64)
        factors = np.ones(len(sizes)) if weights is None else np.asarray(weights, dtype=np.float64)
        if len(factors) != len(sizes) or not np.isfinite(factors).all() or (factors < 0).any():
            raise InputError(f"weights {list(factors)}: expected {len(sizes)} numbers, none of them negative")
        if batch_size < 1 or steps < 1 or max_repeats < 1 or not 0 <= temperature < np.inf:
            raise InputError(
                f"batch size {batch_size}, {steps} steps, at most {max_repeats} repeats, temperature {temperature:g}: "
                "the first three must be at least 1, the temperature at least 0"
            )
        self._batch_size, self._steps, self._seed = batch_size, steps, seed
        self._starts = np.cumsum(self._sizes) - self._sizes
        usable = int(self._sizes[factors > 0].sum())
        if usable < batch_size:
            raise InputError(
                f"{usable:,} pairs are less than one batch of {batch_size:,}; give more data or a smaller batch size"
            )
        # No batch holds a whole corpus twice.
        caps = np.where(factors > 0, self._sizes, 0) * min(max_repeats, steps)
        if caps.sum() < batch_size * steps:
            raise InputError(
                f"{steps:,} steps take {batch_size * steps:,} pairs, but {usable:,} pairs seen at most {max_repeats} "
                f"times are {caps.sum():,}; give more data, fewer steps or a larger max_repeats"
            )
        # Relative to the largest, so that a high temperature does not overflow; never 0, since small corpora take what
        # the caps of large ones leave.
        relative = np.maximum(self._sizes, 1) / max(1, self._sizes.max(initial=1))
        self.draws = _quotas(np.maximum(relative**temperature, 1e-12) * factors, caps, batch_size * steps)
        self._bounds = np.cumsum(self.draws)
        # A permutation of the steps, far apart for steps that follow each other: the place at which step s cuts.
        self._phases = np.random.default_rng([seed, 0]).permutation(steps)
        self._drawn: tuple[int, NDArray[np.int64]] = (0, np.zeros(len(sizes), dtype=np.int64))
        self._orders: dict[int, tuple[int, NDArray[np.int32]]] = {}

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, step: int) -> NDArray[np.int64]:
        """Batch number `step`: int64 (batch_size,)."""
        if not 0 <= step < self._steps:
            raise IndexError(f"step {step} of {self._steps}")
        before = self._drawn_before(step)
        counts = self._counts(slice(step, step + 1))[0]
        batch = np.concatenate(
            [self._pairs(int(corpus), int(before[corpus]), int(counts[corpus])) for corpus in np.flatnonzero(counts)]
        )
        return np.random.default_rng([self._seed, 1, step]).permutation(batch)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        return (self[step] for step in range(self._steps))

    def shares(self) -> NDArray[np.float64]:
        """Each corpus's share of the pairs in the batches; they add up to 1."""
        shares: NDArray[np.float64] = self.draws / self.draws.sum()
        return shares

    def _counts(self, steps: slice) -> NDArray[np.int64]:
        """The number of pairs of each corpus in these batches: int64 (steps, corpora).

        The corpora's quotas lie end to end on a line. A batch takes every `steps`-th point of it, beginning at its
        phase: as each phase occurs once, all batches together take each point once, and so just the quotas.
        """
        phases = self._phases[steps, None]
        passed = (self._bounds + self._steps - 1 - phases) // self._steps
        return np.diff(passed, axis=1, prepend=0)

    def _drawn_before(self, step: int) -> NDArray[np.int64]:
        """The number of pairs of each corpus in the batches before `step`."""
        at, drawn = self._drawn if self._drawn[0] <= step else (0, np.zeros_like(self.draws))
        for start in range(at, step, _CHUNK):
            drawn = drawn + self._counts(slice(start, min(start + _CHUNK, step))).sum(axis=0)
        self._drawn = (step, drawn)
        return drawn

    def _pairs(self, corpus: int, first: int, count: int) -> NDArray[np.int64]:
        """The numbers of the pairs that are drawn from a corpus as its draws `first` to `first + count - 1`."""
        size = int(self._sizes[corpus])
        taken = []
        while count:
            epoch, place = divmod(first, size)
            block = self._order(corpus, epoch)[place : place + count]
            taken.append(block)
            first, count = first + len(block), count - len(block)
        numbers: NDArray[np.int64] = np.concatenate(taken) + self._starts[corpus]
        return numbers

    def _order(self, corpus: int, epoch: int) -> NDArray[np.int32]:
        """The order in which the pairs of a corpus are drawn in an epoch."""
        if self._orders.get(corpus, (-1,))[0] != epoch:
            random = np.random.default_rng([self._seed, 2, corpus, epoch])
            self._orders[corpus] = (epoch, random.permutation(int(self._sizes[corpus])).astype(np.int32))
        return self._orders[corpus][1]


def _quotas(rates: NDArray[np.float64], caps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Whole numbers that add up to `total`, in proportion to `rates` but none above its cap (the caps suffice)."""
    capped = caps == 0
    quotas = np.zeros(len(caps))
    while True:
        left = total - int(caps[capped].sum())
        open_rates = np.where(capped, 0.0, rates)
        quotas = np.where(capped, caps, left * open_rates / max(open_rates.sum(), np.finfo(float).tiny))
        over = (quotas >= caps) & ~capped
        if not over.any():
            break
        capped |= over
    whole = np.floor(quotas).astype(np.int64)
    # What rounding down has left, to the largest remainders that have room.
    order = np.argsort(-np.where(whole < caps, quotas - whole, -1.0), kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole


def mixed_batches(recipe: Recipe, pairs: Pairs, kept: NDArray[np.int64]) -> MixedBatches:
    """The batches of a training: places in `kept`, the numbers of the pairs to train on (ascending).

    Raises:
        InputError: fewer pairs than a batch.
    """
    sizes = np.diff(np.searchsorted(kept, [*(part.start for part in pairs.parts), len(pairs.source_rows)]))
    factors = dict(recipe.weights)
    known = {name for part in pairs.parts for name in (part.name, part.name.rpartition(".")[0])}
    for name in factors:
        if name not in known:
            raise unknown_name("corpus in --weight", name, known)
    weights = [factors.get(part.name, factors.get(part.name.rpartition(".")[0], 1.0)) for part in pairs.parts]
    n_pairs = int(sizes[np.array(weights) > 0].sum())
    if n_pairs < recipe.batch_size:
        raise InputError(
            f"{n_pairs:,} pairs to train on are fewer than a batch of {recipe.batch_size:,}; give more, or a smaller "
            "--batch-size"
        )
    total = math.ceil(recipe.epochs * n_pairs / recipe.batch_size)
    total = min(total, recipe.max_steps or total)
    repeats = math.ceil(recipe.max_repeats * total * recipe.batch_size / n_pairs)
    return MixedBatches(
        sizes.tolist(), recipe.batch_size, total, recipe.seed, recipe.temperature, repeats, weights=weights
    )


class TrainingPairs:
    """The pairs to train on, as sentence-transformers' trainer takes a data set.

    Args:
        pairs: a store of pairs.
        kept: the numbers of those to train on, ascending.
        features: of texts by their numbers: those of the sources are their rows, those of the targets follow.
        pivots: share of the pairs whose source sentence is given in another language: as another translation of the
            same source. Pairs without one stay as they are.
        seed: of which pairs these are; the same for a batch each time.
    """

    column_names = ("source", "target", "label")
    _sentence_transformers_preprocessed = True  # the trainer has nothing to add

    def __init__(
        self, pairs: Pairs, kept: NDArray[np.int64], features: Features, *, pivots: float = 0.0, seed: int = 0
    ):
        self._pairs, self._kept, self._features = pairs, kept, features
        self._translations = _Translations(pairs, kept) if pivots else None
        self._pivots, self._seed = pivots, seed

    def __len__(self) -> int:
        return len(self._kept)

    def __getitems__(self, numbers: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """A batch: the rows of the sources, and the numbers of the texts that stand for sources and for targets."""
        positions = np.asarray(numbers)
        chosen = self._kept[positions]
        rows = np.asarray(self._pairs.source_rows[chosen], dtype=np.int64)
        sources, n_sources = rows, len(self._pairs.sources)
        if self._translations:
            random = np.random.default_rng([self._seed, *chosen.tolist()])
            others = self._translations.draw(positions, rows, random)
            is_pivot = (others != chosen) & (random.random(len(chosen)) < self._pivots)
            sources = np.where(is_pivot, n_sources + others, rows)
        return rows, sources, n_sources + chosen

    def loader(self, batches: MixedBatches, batch_size: int, parts: int, pin_memory: bool) -> Any:
        """A `DataLoader` of the batches, each cut into `parts`: computed one after the other, or on several GPUs."""
        import torch

        def collate(batch: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]) -> dict[str, Tensor]:
            rows, sources, targets = batch
            inputs = {f"source_{name}": value for name, value in self._features(sources).items()}
            inputs |= {f"target_{name}": value for name, value in self._features(targets).items()}
            return {**inputs, "label": torch.from_numpy(rows)}

        loader: Any = torch.utils.data.DataLoader  # its types know no data set that reads batch by batch
        sampler = _BatchParts(batches, parts, batch_size)
        return loader(self, batch_sampler=sampler, collate_fn=collate, pin_memory=pin_memory)


class _Translations:
    """The other translations of a pair's source: pairs in `kept` that have the same."""

    def __init__(self, pairs: Pairs, kept: NDArray[np.int64]):
        rows = np.asarray(pairs.source_rows[kept])
        by_source = np.argsort(rows, kind="stable")
        self._numbers = kept[by_source]
        self._places = np.argsort(by_source)  # of each pair among them
        counts = np.bincount(rows, minlength=len(pairs.sources))
        self._starts, self._counts = np.cumsum(counts) - counts, counts

    def draw(
        self, positions: NDArray[np.int64], rows: NDArray[np.int64], random: np.random.Generator
    ) -> NDArray[np.int64]:
        """For each pair the number of another one with its source, or its own if there is none.

        Args:
            positions: of the pairs in `kept`.
            rows: of their sources.
            random: decides.
        """
        own, n_others = self._places[positions], self._counts[rows] - 1
        place = self._starts[rows] + random.integers(0, np.maximum(n_others, 1))
        place += place >= own
        drawn: NDArray[np.int64] = self._numbers[np.where(n_others > 0, place, own)]
        return drawn


class _BatchParts:
    """The batches, each cut into parts that mix the corpora in about the same way."""

    def __init__(self, batches: MixedBatches, parts: int, batch_size: int):
        self._batches, self._parts = batches, parts
        self.batch_size, self.drop_last = batch_size // parts, True  # accelerate asks for them

    def __len__(self) -> int:
        return len(self._batches) * self._parts

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self._batches:
            for part in range(self._parts):
                yield batch[part :: self._parts].tolist()


def student_features(student: Any, pairs: Pairs, n_texts: int, folder: Path, progress: Watcher) -> Features:
    """A function that turns texts, by number, into a student's input: the sources, and after them the targets.

    `n_texts` is the number of texts that a training reads. For a static student, whose steps are fast, all texts are
    tokenised beforehand, in `folder`, if it reads more than there are.
    """
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    texts = _Joined(pairs.sources, pairs.targets)
    prompt = student.prompts.get(student.default_prompt_name or "") or None
    if prompt or not isinstance(student[0], StaticEmbedding):
        return partial(_preprocessed, student, prompt, texts)
    tokenizer = student[0].tokenizer
    if n_texts > len(texts):
        note = partial(progress.count, "texts tokenised")
        return partial(_stored_bags, Tokens.build(tokenizer, texts, folder / "texts", note))
    return partial(_bags, tokenizer, texts)


class _Joined(Sequence[str]):
    """Two sequences as one."""

    def __init__(self, first: Sequence[str], second: Sequence[str]):
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        n_first = len(self._first)
        return self._first[index] if index < n_first else self._second[index - n_first]


def _preprocessed(student: Any, prompt: str | None, texts: Sequence[str], rows: NDArray[np.int64]) -> dict[str, Tensor]:
    return dict(student.preprocess([texts[row] for row in rows.tolist()], prompt=prompt))


def _stored_bags(tokens: Tokens, rows: NDArray[np.int64]) -> dict[str, Tensor]:
    return _tensors(*tokens.bags(rows))


def _bags(tokenizer: Any, texts: Sequence[str], rows: NDArray[np.int64]) -> dict[str, Tensor]:
    ids, lengths = tokenise(tokenizer, [texts[row] for row in rows.tolist()])
    return _tensors(ids, np.cumsum(lengths) - lengths)


def _tensors(ids: NDArray[np.int64], starts: NDArray[np.int64]) -> dict[str, Tensor]:
    import torch

    return {"input_ids": torch.from_numpy(ids), "offsets": torch.from_numpy(starts)}
