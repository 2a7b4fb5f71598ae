"""Students before training: vocabularies, pruned and trained; transformers; static tables; the compact form."""

import json

import encoders
import numpy as np
import pytest
from tiny_models import SENTENCES, write_bert, write_sentence_transformer, write_xlm_r

from harness.core.errors import InputError

torch = pytest.importorskip("torch")
sentence_transformers = pytest.importorskip("sentence_transformers")
tokenizers = pytest.importorskip("tokenizers")
torch.set_num_threads(1)

from distill.compact import compact_tokenizer, quantised, save_compact  # noqa: E402
from distill.pieces import PieceVectors, initial_table, with_unseen  # noqa: E402
from distill.start import Start  # noqa: E402
from distill.static import load, token_vectors  # noqa: E402
from distill.students import (  # noqa: E402
    Pruning,
    principal_axes,
    ridge_map,
    static_student,
    transformer_student,
    with_fitted_projection,
)
from distill.vocabulary import balanced, count_tokens, frequencies, prune_tokenizer, train_tokenizer  # noqa: E402

TEXTS = [text for text in SENTENCES if text and len(text) < 30]
RARE = "Das Gitarrenkonzert war ausverkauft"


def xlm_r_like(extra=()):
    """tokenizer.json as XLM-R's is: special tokens first, <mask> last, other pieces by score."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    words = ["▁man", "▁ein", "itar", "▁gitarre", "▁guitar", "▁the", "▁report", "spielt", "▁spielt", "▁result", "▁with"]
    letters = sorted(set("".join([*SENTENCES, RARE.lower(), "xyz"])) - {" "})
    pieces = [(piece, 0.0) for piece in special] + [("▁", -2.0)]
    pieces += [(word, -5.0 - place / 7) for place, word in enumerate(words)]
    pieces += [(letter, -8.0 - place / 9) for place, letter in enumerate(letters)]
    pieces += [("▁neverused", -20.0), *extra, ("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens([*special, "<mask>"])
    return tokenizer


def tokens(tokenizer, texts, **options):
    return [encoding.tokens for encoding in tokenizer.encode_batch(texts, **options)]


def test_counts_and_what_is_made_of_them(monkeypatch):
    tokenizer = xlm_r_like()
    monkeypatch.setattr("distill.vocabulary._COUNT_AT_ONCE", 3)
    counts = count_tokens(tokenizer, iter([*SENTENCES, "lone \ud800"]))
    by_loop = {}
    for text in [*SENTENCES, "lone \ufffd"]:
        for number in tokenizer.encode(text, add_special_tokens=False).ids:
            by_loop[number] = by_loop.get(number, 0) + 1
    assert {number: count for number, count in enumerate(counts.tolist()) if count} == by_loop
    assert len(counts) == tokenizer.get_vocab_size()
    two = {"en": np.array([9, 1, 0]), "de": np.array([0, 4, 0])}
    np.testing.assert_allclose(balanced(two), [3, 3, 0])
    np.testing.assert_allclose(frequencies(two), [0.45, 0.55, 0])


def test_a_pruned_vocabulary_has_the_pieces_that_pay():
    whole = xlm_r_like()
    counts = count_tokens(whole, SENTENCES)
    size = 32
    pruned_json, kept = prune_tokenizer(whole.to_str(), counts, size)
    pruned = tokenizers.Tokenizer.from_str(pruned_json)
    assert pruned.get_vocab_size() == len(kept) == size < whole.get_vocab_size()
    assert [whole.id_to_token(number) for number in kept.tolist()] == [pruned.id_to_token(n) for n in range(size)]
    assert (np.diff(kept) > 0).all()

    names = {pruned.id_to_token(number) for number in range(size)}
    occur = {letter for text in SENTENCES for letter in text} - {" "}
    assert occur | {"<s>", "<pad>", "</s>", "<unk>", "<mask>", "▁"} <= names and not {"x", "z"} & names
    words = [number for number, count in enumerate(counts) if count and len(whole.id_to_token(number)) > 1]
    left_out = [counts[number] for number in words if number not in kept]
    assert left_out and max(left_out) <= min(counts[number] for number in words if number in kept)

    text = "a man is the <mask> 雪"
    assert tokens(pruned, [text]) == tokens(whole, [text])  # special tokens, unknown ones and the post-processor
    assert kept[pruned.encode(text).ids].tolist() == whole.encode(text).ids
    assert {0, 2, 3, size - 1} <= set(pruned.encode(text).ids)
    assert not count_tokens(pruned, SENTENCES)[pruned.token_to_id("<unk>")]


def test_rounded_scores_make_a_smaller_tokenizer_that_the_compact_form_keeps():
    whole = xlm_r_like()
    counts = count_tokens(whole, SENTENCES)
    exact, rounded = (prune_tokenizer(whole.to_str(), counts, 32, decimals=decimals)[0] for decimals in (None, 2))
    before, after = (json.loads(content)["model"]["vocab"] for content in (exact, rounded))
    assert before != after == [[piece, round(score, 2)] for piece, score in before]
    assert json.loads(compact_tokenizer(rounded))["model"]["vocab"] == after
    assert len(compact_tokenizer(rounded)) < len(compact_tokenizer(exact))


def test_texts_whose_pieces_are_kept_have_the_same_tokens():
    whole = xlm_r_like()
    counts = count_tokens(whole, [*SENTENCES, RARE])
    pruned_json, kept = prune_tokenizer(whole.to_str(), counts, 35)
    pruned = tokenizers.Tokenizer.from_str(pruned_json)
    random = np.random.default_rng(0)
    words = " ".join([*SENTENCES, RARE, "雪 zzz"]).split()
    n_same = 0
    for _ in range(300):
        text = " ".join(random.choice(words, 4))
        before = whole.encode(text).ids
        if set(before) <= set(kept.tolist()):
            assert kept[pruned.encode(text).ids].tolist() == before
            n_same += 1
    assert 30 < n_same < 300


def test_special_tokens_behind_the_vocabulary_and_other_post_processors():
    from tokenizers import processors

    whole = xlm_r_like()
    whole.add_special_tokens(["<extra>"])
    whole.post_processor = processors.Sequence([processors.RobertaProcessing(("</s>", 2), ("<s>", 0))])
    whole.enable_padding(pad_id=1, pad_token="<pad>")
    counts = count_tokens(whole, SENTENCES)
    # The special tokens move: the vocabulary begins with a piece that is left out.
    content = json.loads(whole.to_str())
    content["model"]["vocab"].insert(0, ["▁unused", -9.0])
    content["model"]["unk_id"] += 1
    for token in content["added_tokens"]:
        token["id"] += 1
    content["post_processor"]["processors"][0].update(sep=["</s>", 3], cls=["<s>", 1])
    content["padding"]["pad_id"] = 2
    moved = tokenizers.Tokenizer.from_str(json.dumps(content))
    pruned_json, kept = prune_tokenizer(json.dumps(content), np.concatenate([[0], counts]), 33)
    pruned = tokenizers.Tokenizer.from_str(pruned_json)
    assert len(kept) == 33 and kept[-1] == moved.token_to_id("<extra>") and pruned.token_to_id("<extra>") == 32
    texts = ["a man is <extra> 雪", "ok"]
    before, after = moved.encode_batch(texts), pruned.encode_batch(texts)
    assert [one.tokens for one in after] == [one.tokens for one in before]
    assert [kept[one.ids].tolist() for one in after] == [one.ids for one in before]
    assert after[1].tokens[-1] == "<pad>" and after[1].ids[-1] == 1


def test_vocabularies_that_cannot_be_pruned():
    whole = xlm_r_like()
    counts = count_tokens(whole, SENTENCES)
    with pytest.raises(InputError, match="12 tokens are too few: 28 are special or single characters"):
        prune_tokenizer(whole.to_str(), counts, 12)
    with pytest.raises(InputError, match="5 counts for a tokenizer of"):
        prune_tokenizer(whole.to_str(), counts[:5], 40)
    bpe = train_tokenizer(SENTENCES, "bpe", 60)
    with pytest.raises(InputError, match="not BPE"):
        prune_tokenizer(bpe.to_str(), np.ones(60), 40)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_tokenizer_of_ones_own(kind):
    texts = [f"{text}, {text}" for text in SENTENCES if text] * 3
    first, second = (train_tokenizer(iter(texts), kind, 60) for _ in range(2))
    assert first.to_str() == second.to_str()
    assert first.token_to_id("<unk>") == 0 and 20 < first.get_vocab_size() <= 60
    found = first.encode("A MAN is playing, a guitar!")
    assert found.ids.count(0) == 1 and "," in found.tokens  # `!` was never seen
    assert len(found.ids) < len("A MAN is playing, a guitar!") - 5
    assert first.decode(first.encode("a man").ids) == "a man"


def test_tokenizers_that_cannot_be_trained():
    with pytest.raises(InputError, match="kind unigram or bpe, not 'wordpiece'"):
        train_tokenizer(SENTENCES, "wordpiece", 60)
    for kind in ("unigram", "bpe"):
        with pytest.raises(InputError, match="cannot train a tokenizer"):
            train_tokenizer([], kind, 60)
    with pytest.raises(InputError, match="cannot train a tokenizer of 3 pieces"):
        train_tokenizer(SENTENCES, "unigram", 3)


def test_the_ridge_map_is_the_least_squares_solution_of_the_penalised_problem():
    random = np.random.default_rng(3)
    x, y = random.standard_normal((50, 4)) + 2, random.standard_normal((50, 3))
    strength = 0.1
    found = ridge_map(x, y, strength)
    penalty = strength * 50 * x.var(axis=0).mean()
    # Penalised least squares are plain least squares with rows of their own for the penalty.
    rows = np.vstack([x - x.mean(axis=0), np.sqrt(penalty) * np.eye(4)])
    expected = np.linalg.lstsq(rows, np.vstack([y - y.mean(axis=0), np.zeros((4, 3))]), rcond=None)[0]
    np.testing.assert_allclose(found.weights, expected, atol=1e-12)
    np.testing.assert_allclose(found.offset, y.mean(axis=0))
    exact = ridge_map(x, x @ expected + 1, 1e-12)
    np.testing.assert_allclose((x - exact.centre) @ exact.weights + exact.offset, x @ expected + 1, atol=1e-9)
    assert not ridge_map(np.ones((5, 4)), y[:5]).weights.any()
    for bad in (x[:1], x[:10]):
        with pytest.raises(InputError, match="two or more pairs"):
            ridge_map(bad, y[:1])


def test_principal_axes_keep_as_much_as_axes_can_and_have_a_sign():
    random = np.random.default_rng(4)
    vectors = random.standard_normal((80, 6)) * [1, 5, 2, 0.1, 3, 0.5] + [4, 0, 0, 0, 0, 0]
    axes = principal_axes(vectors.astype(np.float32), 3)
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-12)
    singular = np.linalg.svd(vectors.astype(np.float32).astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(vectors @ axes, axis=0), singular[:3], rtol=1e-5)
    assert (axes[np.abs(axes).argmax(axis=0), range(3)] > 0).all()
    with pytest.raises(InputError, match="vectors of 6 dimensions have that many principal axes, not 7"):
        principal_axes(vectors, 7)


class Letters(encoders.Letters):
    dim = 8


class Others(Letters):
    """Knows the same letters, and nothing of a word with an x."""

    name = "others"

    def encode(self, texts, *, lang=None):
        rows = super().encode(texts) @ np.random.default_rng(5).standard_normal((8, 8)) + 2
        strange = np.random.default_rng(6).standard_normal((len(texts), 8)) * 50
        return np.where([["x" in text] for text in texts], strange, rows).astype(np.float32)


PHRASES = [*SENTENCES, RARE, "zebra", "ok ok", "quiz", "jazz", "vow", "fjord"]


@pytest.mark.parametrize("encoders", [[Letters()], [Letters(), Others()]])
def test_the_initial_table_by_a_loop(encoders):
    tokenizer = xlm_r_like()
    random = np.random.default_rng(0)
    vectors = (Letters().encode(PHRASES) @ random.standard_normal((8, 6)) + 1).astype(np.float16)
    counts = {"en": count_tokens(tokenizer, SENTENCES), "de": count_tokens(tokenizer, [RARE])}
    of_pieces = PieceVectors(encoders, PHRASES, vectors)
    table = initial_table(tokenizer, of_pieces, token_frequencies=frequencies(counts))
    assert table.shape == (tokenizer.get_vocab_size(), 6) and table.dtype == np.float32

    def together(texts):
        rows = []
        for text in texts:
            own = [encoder.encode([text])[0] for encoder in encoders]
            rows.append(np.concatenate([one / (np.linalg.norm(one) or 1) for one in own]) / np.sqrt(len(own)))
        return np.array(rows)

    fitted = ridge_map(together(PHRASES), vectors)
    for number, row in enumerate(table):
        piece = tokenizer.id_to_token(number).replace("▁", "")
        if piece in ("", "<s>", "<pad>", "</s>", "<unk>", "<mask>") or "x" in piece:
            assert piece == "x" or not row.any()
            continue
        expected = (together([piece])[0] - fitted.centre) @ fitted.weights
        share = (counts["en"][number] / counts["en"].sum() + counts["de"][number] / counts["de"].sum()) / 2
        expected *= 0.001 / (0.001 + share) / np.linalg.norm(expected)
        np.testing.assert_allclose(row, expected, rtol=1e-3, atol=1e-4)
    unweighted = initial_table(tokenizer, of_pieces)
    np.testing.assert_allclose(np.linalg.norm(unweighted[10:20], axis=1), 1, rtol=1e-6)
    with pytest.raises(InputError, match="3 frequencies for a tokenizer of"):
        initial_table(tokenizer, of_pieces, token_frequencies=np.ones(3))


def test_pieces_on_which_encoders_agree_are_added():
    more = [(f"▁{word}", -12.0 - place) for place, word in enumerate(("vow", "exotic", "world", "ωμέγα", "river"))]
    tokenizer = xlm_r_like(more)
    vectors = Letters().encode(PHRASES).astype(np.float32)
    score = balanced({"all": count_tokens(tokenizer, [*SENTENCES, RARE, "xyz"])})
    of_pieces = PieceVectors([Letters(), Others()], PHRASES, vectors)
    agreement = dict(zip(("vow", "exotic", "world"), of_pieces.agreement(["vow", "exotic", "world"]), strict=True))
    assert agreement["vow"] > 0.9 and agreement["world"] > 0.9 and agreement["exotic"] < 1 / 3
    size = np.count_nonzero(score) + 40  # all that occur
    plain = tokenizers.Tokenizer.from_str(prune_tokenizer(tokenizer.to_str(), score, size)[0]).get_vocab()
    others = [piece for piece, _ in json.loads(tokenizer.to_str())["model"]["vocab"] if piece not in plain]
    agreed = [piece for piece in others if of_pieces.agreement([piece.strip("▁")])[0] > 1 / 3]
    agreed.remove("▁ωμέγα")
    assert agreed[-3:] == ["▁vow", "▁world", "▁river"] and len(agreed) > 3
    for unseen in range(len(agreed) + 1):
        content = with_unseen(tokenizer, score, size, unseen, of_pieces, decimals=3)
        vocabulary = tokenizers.Tokenizer.from_str(content).get_vocab()
        assert vocabulary.keys() - plain.keys() == set(agreed[:unseen]) and plain.keys() <= vocabulary.keys()
    # Letters that occur nowhere in the pairs are those of other languages, and an x is disputed.
    everything = with_unseen(tokenizer, score, size, 100, of_pieces, decimals=3)
    assert {"▁vow", "▁world"} <= tokenizers.Tokenizer.from_str(everything).get_vocab().keys()
    assert not {"▁exotic", "▁ωμέγα"} & tokenizers.Tokenizer.from_str(everything).get_vocab().keys()
    with pytest.raises(InputError, match="takes two of them; repeat --init"):
        PieceVectors([Letters()], PHRASES, vectors).agreement(["vow"])


def test_an_encoder_for_the_initial_table_may_lack_memory_and_print(capfd):
    class Small(Letters):
        name = "small"

        def encode(self, texts, *, lang=None):
            print("loading")
            if len(texts) > 10:
                raise MemoryError("Unable to allocate 20 GiB")
            return super().encode(texts, lang=lang)

    tokenizer, vectors = xlm_r_like(), Letters().encode(SENTENCES)
    expected = initial_table(tokenizer, PieceVectors([Letters()], SENTENCES, vectors))
    given = initial_table(tokenizer, PieceVectors([Small()], SENTENCES, vectors))
    np.testing.assert_array_equal(given, expected)
    said, told = capfd.readouterr()
    assert said == "" and "loading\n" in told and "warning: memory ran out; small encodes" in told


def test_a_static_student_is_a_model_of_the_library(tmp_path):
    tokenizer = xlm_r_like()
    table = np.random.default_rng(1).standard_normal((tokenizer.get_vocab_size(), 7))
    student = static_student(tokenizer, 7, table)
    assert all(weights.requires_grad for weights in student.parameters())
    student.save_pretrained(str(tmp_path / "s"))
    again = sentence_transformers.SentenceTransformer(str(tmp_path / "s"), device="cpu")
    for text in TEXTS:
        expected = table[tokenizer.encode(text, add_special_tokens=False).ids].mean(axis=0)
        np.testing.assert_allclose(again.encode(text, show_progress_bar=False), expected, atol=1e-6)
    np.testing.assert_allclose(load(str(tmp_path / "s")).encode(TEXTS), again.encode(TEXTS), atol=1e-6)
    first, same, other = (static_student(tokenizer, 7, seed=seed)[0].embedding.weight for seed in (3, 3, 4))
    assert torch.equal(first, same) and not torch.equal(first, other) and 0.9 < first.norm(dim=1).mean() < 1.1
    with pytest.raises(InputError, match="the tokenizer needs"):
        static_student(tokenizer, 8, table)


@pytest.fixture(scope="module")
def xlm_r(tmp_path_factory):
    """The family of XLM-R, with a vocabulary worth pruning; a folder of transformers."""
    from transformers import AutoModel, PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    folder = write_xlm_r(tmp_path_factory.mktemp("xlm-r"))
    roles = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>"}
    names = {f"{role}_token": token for role, token in roles.items()}
    tokenizer = xlm_r_like()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=32, **names).save_pretrained(folder)
    settings = AutoModel.from_pretrained(folder).config.to_dict()
    settings.update(vocab_size=tokenizer.get_vocab_size() + 3)  # as many models have more rows than tokens
    torch.manual_seed(0)
    XLMRobertaModel(XLMRobertaConfig(**settings)).save_pretrained(folder)
    return folder


def encode(model, texts=TEXTS):
    return model.encode(texts, show_progress_bar=False)


def reloaded(student, folder):
    student.save_pretrained(str(folder))
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


def test_a_pruned_transformer_has_the_same_vectors(xlm_r, tmp_path):
    whole = transformer_student(str(xlm_r), 24, max_length=32, on_cpu=True)
    counts = count_tokens(xlm_r_like(), SENTENCES)
    student = transformer_student(str(xlm_r), 24, pruning=Pruning(counts, 1000), max_length=32, on_cpu=True)
    again = reloaded(student, tmp_path / "s")
    rows = again.transformers_model.get_input_embeddings().weight
    assert len(rows) == again.transformers_model.config.vocab_size == len(again.tokenizer) < len(counts)
    np.testing.assert_allclose(encode(student), encode(whole), atol=1e-6)
    np.testing.assert_allclose(encode(again), encode(whole), atol=1e-6)
    assert again.max_seq_length == 32 and again.tokenizer.pad_token_id == 1
    assert again.tokenizer.mask_token_id == len(rows) - 1
    batch = again.tokenizer(["a man", "ok"], padding=True)["input_ids"]
    assert batch[0][0] == 0 and batch[0][-1] == 2 and (set(batch[1]) & {1} or len(batch[1]) == len(batch[0]))
    small = transformer_student(str(xlm_r), 24, pruning=Pruning(counts, 30), max_length=32, on_cpu=True)
    assert not np.allclose(encode(small), encode(whole), atol=1e-3)  # words fall into letters


def test_layers_projection_and_prompt_of_a_transformer(xlm_r, tmp_path):
    from transformers import AutoModel, AutoTokenizer

    student = transformer_student(str(xlm_r), 10, keep_layers=1, prompt="the ", max_length=20, on_cpu=True)
    again = reloaded(student, tmp_path / "s")
    assert [type(module).__name__ for module in again] == ["Transformer", "Pooling", "Dense"]
    assert again.transformers_model.config.num_hidden_layers == 1 and again.max_seq_length == 20
    tokenizer, model = AutoTokenizer.from_pretrained(xlm_r), AutoModel.from_pretrained(xlm_r).eval()
    dense = student[2].linear
    for text, vector in zip(TEXTS, encode(again), strict=True):
        with torch.no_grad():
            inputs = tokenizer("the " + text, return_tensors="pt")
            inputs.pop("token_type_ids", None)
            states = model(**inputs, output_hidden_states=True).hidden_states[1][0]
            np.testing.assert_allclose(vector, dense(states.mean(dim=0)), atol=1e-5)
    same, other = (
        transformer_student(str(xlm_r), 10, seed=seed, max_length=32, on_cpu=True)[2].linear for seed in (0, 1)
    )
    assert torch.equal(same.weight, dense.weight) and not torch.equal(other.weight, dense.weight)


def test_of_a_sentence_transformer_the_dense_layer_stays(tmp_path):
    folder = write_sentence_transformer(tmp_path / "st", write_bert(tmp_path / "bert"))
    student = transformer_student(str(folder), 16, max_length=40, on_cpu=True)
    assert [type(module).__name__ for module in student] == ["Transformer", "Pooling", "Dense"]
    found, theirs = encode(student), encode(sentence_transformers.SentenceTransformer(str(folder), device="cpu"))
    np.testing.assert_allclose(found / np.linalg.norm(found, axis=1, keepdims=True), theirs, atol=1e-6)


def test_the_fitted_projection_is_the_ridge_map(xlm_r, tmp_path):
    student = transformer_student(str(xlm_r), 24, max_length=32, on_cpu=True)
    texts = [*TEXTS, "with the man", "ein report", "the result", "gitarre ok"]
    vectors = np.random.default_rng(0).standard_normal((len(texts), 6)).astype(np.float16)
    fitted = ridge_map(encode(student, texts), vectors)
    found = encode(reloaded(with_fitted_projection(student, texts, vectors), tmp_path / "s"), texts)
    np.testing.assert_allclose(
        found, (encode(student, texts) - fitted.centre) @ fitted.weights + fitted.offset, atol=1e-5
    )
    once_more = with_fitted_projection(with_fitted_projection(student, texts, vectors), texts, vectors)
    assert len(once_more) == 3


def test_transformers_that_do_not_fit(xlm_r, tmp_path):
    with pytest.raises(InputError, match="--keep-layers must be 1 to 2, the layers of the start, not 3"):
        transformer_student(str(xlm_r), 24, keep_layers=3, max_length=32, on_cpu=True)
    with pytest.raises(InputError, match="no model folder"):
        transformer_student(str(tmp_path / "none"), 24)
    with pytest.raises(InputError, match="at least 1 dimension, not 0"):
        transformer_student(str(xlm_r), 0)
    static_student(xlm_r_like(), 4).save_pretrained(str(tmp_path / "static"))
    with pytest.raises(InputError, match="has no transformer"):
        transformer_student(str(tmp_path / "static"), 24, on_cpu=True)
    bert = write_bert(tmp_path / "bert")
    with pytest.raises(InputError, match="only Unigram vocabularies"):
        transformer_student(str(bert), 32, pruning=Pruning(np.ones(99), 50), max_length=40, on_cpu=True)


@pytest.fixture(scope="module")
def static_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("static") / "s"
    student = static_student(xlm_r_like(), 64, seed=1)
    student.append(sentence_transformers.sentence_transformer.modules.Normalize())
    student.save_pretrained(str(folder))
    (folder / "README.md").write_text("# Card\n", encoding="utf-8")
    (folder / "LICENSE").write_text("free", encoding="utf-8")
    (folder / "curve.svg").write_bytes(b"not copied")
    return folder


@pytest.mark.parametrize("bits, size", [("int8", 64 + 2), ("float16", 128)])
def test_the_compact_form_has_the_same_vectors_and_opens_everywhere(static_folder, tmp_path, bits, size, capsys):
    out = tmp_path / "out"
    n_bytes = save_compact(static_folder, out, bits=bits, check_texts=SENTENCES)
    assert n_bytes == sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    weights = (out / "model.safetensors").stat().st_size
    assert 0 <= weights - size * xlm_r_like().get_vocab_size() < 300
    before = load(str(static_folder)).encode(TEXTS)
    ours = load(str(out)).encode(TEXTS)
    theirs = encode(sentence_transformers.SentenceTransformer(str(out), device="cpu", trust_remote_code=False))
    assert ((before * ours).sum(axis=1) > 0.999).all() and not np.array_equal(before, ours)
    assert ((before * theirs).sum(axis=1) > 0.999).all()
    assert {path.name for path in out.iterdir() if path.is_file()} == {
        "LICENSE",
        "README.md",
        "config_sentence_transformers.json",
        "curve.svg",
        "model.safetensors",
        "modules.json",
        "tokenizer.json",
    }
    assert capsys.readouterr().out == ""
    with pytest.raises(InputError, match="is there already"):
        save_compact(static_folder, out)


def test_int8_rows_are_as_near_as_a_half_step(tmp_path):
    random = np.random.default_rng(0)
    table = (random.standard_normal((50, 16)) * 10.0 ** random.uniform(-2, 3, (50, 1))).astype(np.float32)
    table[7] = 0
    tensors = quantised(table)
    assert tensors["embeddings"].dtype == np.int8 and tensors["weights"].dtype == np.float16
    scales = tensors["weights"].astype(np.float64)
    error = np.abs(tensors["embeddings"] * scales[:, None] - table)
    assert (error <= 0.5001 * scales[:, None]).all() and (np.abs(tensors["embeddings"]).max(axis=1)[:7] >= 125).all()
    assert (scales * 127 >= np.abs(table).max(axis=1) * (1 - 1e-6)).all() and scales[7] == 0
    for factor in (1e-6, 1e6):  # out of float16's range
        wide = quantised(table * np.float32(factor))
        assert wide["weights"].dtype == np.float32
        error = np.abs(wide["embeddings"] * wide["weights"].astype(np.float64)[:, None] - table * factor)
        assert (error <= 0.5001 * wide["weights"].astype(np.float64)[:, None]).all()
    table[3, 3] = np.nan
    with pytest.raises(InputError, match="not finite"):
        quantised(table)


@pytest.mark.parametrize("dim", [128, 10])
def test_int4_by_a_loop(tmp_path, dim):
    random = np.random.default_rng(0)
    table = (random.standard_normal((50, dim)) * 10.0 ** random.uniform(-2, 2, (50, 1))).astype(np.float32)
    table[7] = 0
    tensors = quantised(table, "int4")
    block = 64 if dim == 128 else dim
    assert {name: (value.dtype, value.shape) for name, value in tensors.items()} == {
        "embeddings.int4": (np.uint8, (50, dim // 2)),
        "embeddings.scales": (np.float16, (50, dim // block)),
    }
    read = token_vectors(tensors)
    for row in range(50):
        for column in range(dim):
            byte = int(tensors["embeddings.int4"][row, column // 2])
            scale = float(tensors["embeddings.scales"][row, column // block])
            number = (byte >> 4 if column % 2 else byte & 15) - 8
            assert abs(number) <= 7 and read[row, column] == np.float32(number * np.float32(scale))
            assert abs(number * scale - table[row, column]) <= 0.501 * scale
    with pytest.raises(InputError, match="9 dimensions are odd; take int8"):
        quantised(table[:, :9], "int4")
    for bad in (
        {"embeddings.int4": tensors["embeddings.int4"]},
        tensors | {"embeddings.scales": tensors["embeddings.scales"][:9]},
        tensors | {"embeddings.scales": np.zeros((50, 3), np.float16)},
        tensors | {"embeddings.int4": tensors["embeddings.int4"].astype(np.int8)},
        tensors | {"embeddings.int4": tensors["embeddings.int4"][0]},
    ):
        with pytest.raises(InputError, match=r"damaged: .* do not fit each other"):
            token_vectors(bad)


def test_int4_is_opened_and_written_again_in_int8(static_folder, tmp_path):
    assert save_compact(static_folder, tmp_path / "four", bits="int4") < save_compact(static_folder, tmp_path / "eight")
    before, ours = (load(str(folder)).encode(TEXTS) for folder in (static_folder, tmp_path / "four"))
    assert ((before * ours).sum(axis=1) > 0.98).all() and not np.array_equal(before, ours)
    save_compact(tmp_path / "four", tmp_path / "again", bits="int8")
    library = sentence_transformers.SentenceTransformer(str(tmp_path / "again"), device="cpu", trust_remote_code=False)
    assert ((ours * encode(library)).sum(axis=1) > 0.9999).all()


def test_scores_are_rounded_as_far_as_no_token_changes():
    # Of the two ways to read `ab`, the second is better by 0.0004 only: two or three decimals would change it.
    whole = xlm_r_like([("q", -6.0), ("w", -6.0), ("qw", -12.0004)])
    rounded = json.loads(compact_tokenizer(whole.to_str(), ["qw"]))
    scores = dict(map(tuple, rounded["model"]["vocab"]))
    assert scores["qw"] == -12.0004 and scores["▁ein"] == round(-5 - 1 / 7, 4)
    assert (
        tokenizers.Tokenizer.from_str(json.dumps(rounded)).encode("qw").tokens
        == whole.encode("qw", add_special_tokens=False).tokens
        == ["▁", "q", "w"]
    )
    unchecked = json.loads(compact_tokenizer(whole.to_str()))
    assert unchecked["model"] == json.loads(whole.to_str())["model"]
    assert len(compact_tokenizer(whole.to_str(), ["a"])) < len(compact_tokenizer(whole.to_str(), ["qw"]))


def test_folders_that_are_no_static_models(static_folder, tmp_path):
    with pytest.raises(InputError, match="no model folder"):
        save_compact(tmp_path / "none", tmp_path / "out")
    with pytest.raises(InputError, match="int4, int8 or float16, not 'int2'"):
        save_compact(static_folder, tmp_path / "out", bits="int2")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="cannot load the static model"):
        save_compact(tmp_path / "empty", tmp_path / "out")
    damaged = tmp_path / "empty" / "modules.json"
    for content, reason in (("[" * 200_000, "nested too deeply"), ('["x"]', "Expected `object`"), ("[{}]", "`type`")):
        damaged.write_text(content)
        with pytest.raises(InputError, match=f"modules.json: no list of modules .*{reason}.*; copy the model's"):
            save_compact(damaged.parent, tmp_path / "out")
        with pytest.raises(InputError, match=f"modules.json: no list of modules .*{reason}.*; copy the model's"):
            Start(str(damaged.parent)).check()
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        save_compact(static_folder, blocked / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]
