"""Transformers of a few thousand weights, with real tokenizers, written as the real ones are."""

from pathlib import Path

SENTENCES = [
    "a man is playing a guitar",
    "ein mann spielt gitarre",
    "the committee met twice without result and at last agreed on the wording of the report",
    "ok",
    "",
    "a man a man a man a man",
    "gitarre",
    "the report is on the guitar, the man is without result",
]


def write_bert(folder: Path, *, seed: int = 0) -> Path:
    """BERT: 2 layers, 32 dimensions, 40 positions, WordPiece; special tokens [CLS] and [SEP]."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel

    words = sorted({word.strip(",") for text in SENTENCES for word in text.split()} - {"guitar"})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ",", "gui", "##tar", *words, "query", ":"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    roles = {"cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "unk": "[UNK]", "mask": "[MASK]"}
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        initializer_range=0.5,  # wide enough that every token matters
    )
    return _write(folder, tokenizer, roles, 40, BertModel, config, seed)


def write_xlm_r(folder: Path, *, seed: int = 0, kin: str = "XLMRoberta") -> Path:
    """XLM-R, or another of its family (`kin`).

    2 layers, 24 dimensions, 34 positions of which 32 count, Unigram; special tokens <s> and </s>.
    """
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = sorted({letter for text in SENTENCES for letter in text} - {" "})
    pieces = [(piece, 0.0) for piece in special] + [("▁", -3.0), ("▁man", -2.0), ("▁the", -2.0)]
    pieces += [(letter, -4.0) for letter in letters] + [("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    roles = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>"}
    config = getattr(transformers, f"{kin}Config")(
        vocab_size=len(pieces),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=34,
        type_vocab_size=1,
        pad_token_id=1,
        initializer_range=0.5,
    )
    # The tokenizer claims more tokens than the model has positions for, as some on the hub do.
    return _write(folder, tokenizer, roles, 512, getattr(transformers, f"{kin}Model"), config, seed)


def write_sentence_transformer(folder: Path, transformer: Path, **options: object) -> Path:
    """The transformer with mean pooling, a dense layer to 16 dimensions and normalisation."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

    torch.manual_seed(7)
    first = Transformer(str(transformer))
    pooling = Pooling(first.get_embedding_dimension(), "mean")
    dense = Dense(pooling.get_embedding_dimension(), 16)
    SentenceTransformer(modules=[first, pooling, dense, Normalize()], device="cpu", **options).save(str(folder))
    return folder


def _write(folder, tokenizer, roles, max_length, model_class, config, seed):  # type: ignore[no-untyped-def]
    import torch
    from transformers import PreTrainedTokenizerFast

    names = {f"{role}_token": token for role, token in roles.items()}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=max_length, **names).save_pretrained(folder)
    torch.manual_seed(seed)
    model_class(config).save_pretrained(folder)
    return folder
