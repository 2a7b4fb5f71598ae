"""A LASER release of a few thousand weights: BPE codes and vocabulary as fastBPE writes them, and a checkpoint."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

from harness.data.sources import SAMPLE_DIR

CODES, VOCABULARY, CHECKPOINT = "93langs.fcodes", "93langs.fvocab", "bilstm.93langs.2018-12-26.pt"
GREEK = ["Ο άνθρωπος παίζει κιθάρα.", "Καλημέρα σας!", "Το τρένο έχει καθυστέρηση."]
DIM = 24


def write_laser(folder: Path, *, seed: int = 0, zipped: bool = False) -> Path:
    """The three files: 300 merges learnt from the bundled sample, 2 bidirectional layers, 24 dimensions.

    The checkpoint has the format of 2018, as the release, or PyTorch's present one (`zipped`).
    """
    import torch
    from laserembeddings.encoder import Encoder
    from laserembeddings.preprocessing import Tokenizer
    from subword_nmt.apply_bpe import BPE
    from subword_nmt.learn_bpe import learn_bpe

    folder.mkdir(parents=True, exist_ok=True)
    tokenised = [
        Tokenizer(lang).tokenize(text)
        for lang, sentences in {"en": sample("deu", "eng"), "de": sample("deu", "deu"), "el": GREEK}.items()
        for text in sentences
    ]
    learnt = io.StringIO()
    learn_bpe(io.StringIO("\n".join(tokenised)), learnt, 300, min_frequency=1)
    header, *merges = learnt.getvalue().splitlines()
    assert header == "#version: 0.2"
    counts = Counter(word for text in tokenised for word in text.split())
    # fastBPE writes no header, but a count behind each pair.
    (folder / CODES).write_text("".join(f"{pair} {1000 - n}\n" for n, pair in enumerate(merges)), encoding="utf-8")
    bpe = BPE(io.StringIO(learnt.getvalue()))
    vocabulary = Counter()
    for word, count in counts.items():
        vocabulary.update(dict.fromkeys(bpe.segment_tokens([word]), count))
    lines = "".join(f"{subword} {count}\n" for subword, count in vocabulary.most_common())
    (folder / VOCABULARY).write_text(lines, encoding="utf-8")

    subwords = ["<s>", "<pad>", "</s>", "<unk>", *vocabulary]
    params = {
        "num_embeddings": len(subwords),
        "padding_idx": 1,
        "embed_dim": 16,
        "hidden_size": DIM // 2,
        "num_layers": 2,
        "bidirectional": True,
        "left_pad": True,
        "padding_value": 0.0,
    }
    torch.manual_seed(seed)
    encoder = Encoder(**params)
    for weights in encoder.parameters():
        torch.nn.init.normal_(weights)  # wide enough that every token matters
    dictionary = {subword: number for number, subword in enumerate(subwords)}
    checkpoint = {"params": params, "model": encoder.state_dict(), "dictionary": dictionary}
    torch.save(checkpoint, folder / CHECKPOINT, _use_new_zipfile_serialization=zipped)
    return folder


def sample(pair: str, side: str) -> list[str]:
    """One side of a language of the bundled Tatoeba sample."""
    path = SAMPLE_DIR / "tatoeba" / "v1" / f"tatoeba.{pair}-eng.{side}"
    return path.read_text(encoding="utf-8").splitlines()
