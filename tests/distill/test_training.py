"""Distillations through the real trainer, on languages that are made up."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_corpora import write_corpus, write_word_swaps
from tiny_models import SENTENCES, write_bert

from baselines.adapters.huggingface import folder_digest
from baselines.training.model_folder import only_training
from distill.distillation import Options, distill
from distill.report import Watcher
from distill.start import Start
from harness.core.errors import InputError

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")
pytest.importorskip("accelerate")
pytest.importorskip("datasets")
pytest.importorskip("vl_convert")

from distill import training  # noqa: E402
from distill.recipe import STATIC, Recipe  # noqa: E402
from distill.sampler import TrainingPairs, mixed_batches  # noqa: E402
from distill.students import set_up  # noqa: E402
from distill.training import evaluate_every  # noqa: E402

torch.set_num_threads(1)

TEACHER = "chargrams?dim=32"
STUDENT = "static:unigram-200"
FAST = replace(STATIC, batch_size=32, learning_rate=0.05, epochs=20, max_steps=12, eval_steps=4, warm_up=0)
TRANSFORMER = Recipe(batch_size=32, learning_rate=1e-2, warm_up=20, max_steps=8, eval_steps=4, max_length=20)
WORDS = sorted({word.strip(",") for text in SENTENCES for word in text.split()} - {"guitar", ""})


class Lines(Watcher):
    """Keeps what it is told; is killed when `at` is said."""

    def __init__(self, at=None):
        super().__init__()
        self.lines, self._at = [], at

    def note(self, line):
        self.lines.append(line)
        if self._at and line.startswith(self._at):
            raise Killed


class Killed(BaseException):
    pass


@pytest.fixture(autouse=True)
def no_drawing(monkeypatch):
    """It takes as long as all the rest. The module's own student (`undisturbed`) has been drawn before."""
    monkeypatch.setattr("distill.report.draw_curve", lambda trained: "")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return [write_corpus(folder, "tiny", "de", 300), write_corpus(folder, "tiny", "tr", 120)]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """Two layers; with weights as small as at the start of a pre-training, from which it learns in a few steps."""
    from transformers import BertConfig, BertModel

    folder = write_bert(tmp_path_factory.mktemp("start") / "bert")
    config = BertConfig.from_pretrained(folder)
    config.initializer_range = 0.05
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def swaps(tmp_path_factory):
    return [write_word_swaps(tmp_path_factory.mktemp("data"), "swaps", "de", 300, words=WORDS)]


def run(files, out, student=STUDENT, recipe=FAST, progress=None, **options):
    options = Options(pairs=files, recipe=recipe, on_cpu=True, **options)
    return distill(TEACHER, student, out, options, progress)


def weights(folder):
    from safetensors.numpy import load_file

    return load_file(folder / "model.safetensors")


@pytest.fixture(scope="module")
def undisturbed(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(folder / "cache"))
        return folder / "model", run(files, folder / "model")


@pytest.mark.parametrize("loss", ["mse", pytest.param("cosine", marks=pytest.mark.nightly), "cosine+ranking"])
def test_a_static_student_learns(files, tmp_path, loss):
    """Chance finds one of 30 translations, and one of 12: it will never find 90 %."""
    trained = run(files, tmp_path / "model", recipe=replace(FAST, loss=loss, max_steps=100, eval_steps=50))
    assert trained.before["accuracy_xx_en"] < 25 and trained.before["accuracy_en_xx"] < 25
    assert trained.after["accuracy_xx_en"] > 90 and trained.after["accuracy_en_xx"] > 90
    if loss != "cosine+ranking":
        assert trained.after["mse_unit"] < trained.before["mse_unit"] / 4
    if loss == "mse":
        assert trained.after["mse"] < trained.before["mse"] / 3


def test_a_transformer_learns(bert, swaps, tmp_path):
    recipe = replace(TRANSFORMER, max_steps=100, eval_steps=50)
    trained = run(swaps, tmp_path / "model", bert, recipe)
    assert trained.before["accuracy_xx_en"] < 25 and trained.after["accuracy_xx_en"] > 80
    assert trained.after["mse_unit"] < trained.before["mse_unit"] / 4
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(tmp_path / "model"), device="cpu", local_files_only=True)
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling"]  # 32 dimensions are the teacher's
    assert model.max_seq_length == 20


MOMENTS = ("step 4 of 12:", "step 8 of 12:", "step 12 of 12 (", "12 steps, best")


@pytest.mark.parametrize("moments", [MOMENTS, *(pytest.param([one], marks=pytest.mark.nightly) for one in MOMENTS)])
def test_killed_and_run_again_it_ends_with_the_same_numbers(files, tmp_path, undisturbed, moments):
    out = tmp_path / "model"
    for moment in moments:
        with pytest.raises(Killed):
            run(files, out, progress=Lines(moment))
        assert not out.exists()
    half = tmp_path / "model.training/checkpoints/checkpoint-11"  # killed while it was written
    half.mkdir(parents=True)
    (half / "model.safetensors").write_bytes(b"half")
    again = Lines()
    assert run(files, out, progress=again) == undisturbed[1]
    assert any("goes on after step" in said for said in again.lines) == (moments[-1] != "step 4 of 12:")
    assert folder_digest(out) == folder_digest(undisturbed[0])
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    # Once more: it is there.
    assert run(files, out, progress=again) == undisturbed[1] and again.lines[-1] == "model: complete, nothing to do"


def test_a_transformer_is_resumed_with_its_dropout(bert, swaps, tmp_path):
    run(swaps, tmp_path / "whole", bert, TRANSFORMER)
    with pytest.raises(Killed):
        run(swaps, tmp_path / "killed", bert, TRANSFORMER, progress=Lines("step 6 of 8 "))
    run(swaps, tmp_path / "killed", bert, TRANSFORMER)
    assert folder_digest(tmp_path / "killed") == folder_digest(tmp_path / "whole")


def test_dropout_may_be_left_out_of_the_training(bert, swaps, tmp_path):
    from sentence_transformers import SentenceTransformer

    for name, dropout in {"own": None, "same": 0.1, "none": 0.0}.items():
        run(swaps, tmp_path / name, bert, replace(TRANSFORMER, dropout=dropout, max_steps=4))
        model = SentenceTransformer(str(tmp_path / name), device="cpu", local_files_only=True)
        assert model.transformers_model.config.hidden_dropout_prob == 0.1  # for the next training, as it was
    own, same, none = (weights(tmp_path / name) for name in ("own", "same", "none"))
    changed = [name for name in own if not np.array_equal(own[name], none[name])]
    assert all(np.array_equal(own[name], same[name]) for name in own) and len(changed) > len(own) / 2


def test_without_dropout_a_sentence_has_one_vector_in_training(bert):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(bert, device="cpu", local_files_only=True).train()
    features = model.preprocess(["w1 w2 w3"])
    for dropout, is_one in ((0.5, False), (0.0, True)):
        set_up(model, dropout)
        first, second = (model(dict(features))["sentence_embedding"] for _ in range(2))
        assert torch.equal(first, second) == is_one


def test_a_seed_decides_everything(files, tmp_path, undisturbed):
    run(files, tmp_path / "same")
    assert folder_digest(tmp_path / "same") == folder_digest(undisturbed[0])
    run(files, tmp_path / "other", recipe=replace(FAST, seed=1))
    assert not np.allclose(weights(tmp_path / "other")["embedding.weight"], weights(undisturbed[0])["embedding.weight"])


def test_a_batch_in_parts_is_the_same_batch(files, tmp_path, undisturbed):
    parts = run(files, tmp_path / "parts", recipe=replace(FAST, accumulate=4))
    np.testing.assert_allclose(
        weights(tmp_path / "parts")["embedding.weight"], weights(undisturbed[0])["embedding.weight"], atol=2e-3
    )
    assert parts.after["mse"] == pytest.approx(undisturbed[1].after["mse"], rel=1e-3)


def test_the_folder_is_safe_and_whole(undisturbed):
    out, trained = undisturbed
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {"model.safetensors", "modules.json", "README.md", "report.md", "curve.svg", "training.json"} <= names
    assert not any(name.endswith((".bin", ".pt", ".pth", ".pkl")) for name in names)
    record = json.loads((out / "training.json").read_text())
    assert record["settings"]["loss"] == "mse" and record["steps"] == 12
    shares = [corpus["share"] for corpus in record["corpora"]]
    assert shares == pytest.approx([0.5, 0.5], abs=0.02)  # about evenly, however small
    assert str(out.parent) not in (out / "training.json").read_text() + (out / "report.md").read_text()
    assert (out / "curve.svg").read_text().startswith("<svg ")
    report = re.sub(" +", " ", (out / "report.md").read_text())
    assert "| tiny.en-tr | tr | 120 | 50.0 % |" in report and "% for evaluations" in report
    assert f"{trained.after['mse']:.4g}" in (out / "README.md").read_text()


def test_no_batch_has_a_sentence_of_the_development_set(files, tmp_path, monkeypatch):
    seen, held_out = set(), set()
    read = TrainingPairs.__getitems__

    def spy(self, numbers):
        batch = read(self, numbers)
        seen.update(self._pairs.sources[row] for row in batch[0].tolist())
        return batch

    def keep(recipe, pairs, teacher, student, development, *rest, **options):
        for language in development.pairs.values():
            held_out.update(language.sources)
        return training.train(recipe, pairs, teacher, student, development, *rest, **options)

    monkeypatch.setattr(TrainingPairs, "__getitems__", spy)
    monkeypatch.setattr("distill.distillation.train", keep)
    trained = run(files, tmp_path / "model", recipe=replace(FAST, max_steps=40))
    english = {line.partition("\t")[0] for path in files for line in path.read_text().splitlines()}
    assert 30 <= len(held_out) <= 42  # a tenth of each file, some of them in both
    assert seen == english - held_out
    assert trained.held_out >= 42  # the German half of a sentence that was held out for Turkish, too


def test_it_stops_early(files, tmp_path):
    lines = Lines()
    recipe = replace(FAST, learning_rate=0.0, max_steps=40, eval_steps=2, patience=3)
    trained = run(files, tmp_path / "model", recipe=recipe, progress=lines)
    assert (trained.steps, trained.best_step) == (8, 2)  # the first was the best
    assert "stops early: no better dev mse in 3 evaluations" in lines.lines


def test_the_best_step_is_taken(files, tmp_path, monkeypatch):
    """The development scores are made up; the vectors of a sentence tell from which step the weights are."""
    from distill.development import Development

    found = []

    def evaluate(self, encode, teacher):
        found.append(encode(["a probe " + next(iter(self.pairs["de"].targets))]))
        mse = [9.0, 5.0, 1.0, 3.0][len(found) - 1]
        return {"mse": mse, "mse_unit": mse, "accuracy_en_xx": 0.0, "accuracy_xx_en": 0.0}

    monkeypatch.setattr(Development, "evaluate", evaluate)
    monkeypatch.setattr("distill.report._by_language", lambda trained: "")
    trained = run(files, tmp_path / "model")
    assert [point["mse"] for point in trained.curve] == [9, 5, 1, 3] and trained.best_step == 8
    from sentence_transformers import SentenceTransformer

    probe = SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(["a probe " + probe_target(files)])
    assert not np.allclose(found[2], found[3], atol=1e-3)
    np.testing.assert_allclose(probe, found[2], atol=1e-6)


def test_another_score_may_decide_which_step_is_the_best(files, tmp_path, monkeypatch):
    from distill.development import Development

    accuracies = iter([0.0, 10.0, 30.0, 20.0])

    def evaluate(self, encode, teacher):
        accuracy = next(accuracies)
        return {"mse": accuracy, "mse_unit": accuracy, "accuracy_en_xx": accuracy, "accuracy_xx_en": 0.0}

    monkeypatch.setattr(Development, "evaluate", evaluate)
    monkeypatch.setattr("distill.report._by_language", lambda trained: "")
    trained = run(files, tmp_path / "model", recipe=replace(FAST, best_by="accuracy_en_xx"))
    assert trained.best_step == 8  # by the MSE it is 4


def test_frozen_layers_are_not_trained(bert, swaps, tmp_path):
    from safetensors.numpy import load_file

    run(swaps, tmp_path / "model", Start(bert, freeze_layers=1), TRANSFORMER)
    before, after = load_file(Path(bert) / "model.safetensors"), weights(tmp_path / "model")
    for name, value in after.items():
        if not name.startswith("pooler"):  # no sentence vector depends on it
            assert np.array_equal(value, before[name]) == name.startswith(("embeddings", "encoder.layer.0")), name


def test_the_teachers_vectors_in_float32(files, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    run(files, tmp_path / "model", recipe=replace(FAST, teacher_dtype="float32"))
    run(files, tmp_path / "other")
    stores = (tmp_path / "cache/distill/teacher").glob("*/vectors.npy")
    assert {np.load(store, mmap_mode="r").dtype.name for store in stores} == {"float16", "float32"}


def test_two_trainings_of_one_folder(files, tmp_path):
    with (
        only_training(tmp_path / "model"),
        pytest.raises(InputError, match=r"another process is training .*model; wait"),
    ):
        run(files, tmp_path / "model")
    run(files, tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def probe_target(files):
    from distill.development import hold_out
    from distill.pairs import Filters, PairStore
    from harness.data.corpora import open_corpus
    from harness.tasks.leakage import EvaluationSentences

    guard = EvaluationSentences(["nothing"])
    store = PairStore.build(
        [open_corpus(path, source_lang="en") for path in files], Filters(), guard, files[0].parent / "store"
    )
    return hold_out(store, guard).pairs["de"].targets[0]


def test_fewer_dimensions_than_the_teacher(files, tmp_path):
    trained = run(files, tmp_path / "model", Start(STUDENT, dim=12))
    assert weights(tmp_path / "model")["embedding.weight"].shape[1] == 12
    assert set(trained.digests) == {"start", "projection"}
    # The folder brings the projection: one can go on from it, and the same teacher fits.
    again = run(files, tmp_path / "again", str(tmp_path / "model"))
    assert again.digests["projection"] == trained.digests["projection"]
    assert again.before["mse"] == pytest.approx(trained.after["mse"], rel=1e-5)
    (tmp_path / "model/teacher_projection.safetensors").unlink()
    with pytest.raises(InputError, match="the student has 12 dimensions, the teacher's vectors have 32; --dim 12"):
        run(files, tmp_path / "third", str(tmp_path / "model"))


def test_matryoshka_puts_the_teacher_on_its_principal_axes(files, tmp_path):
    trained = run(files, tmp_path / "model", recipe=replace(FAST, matryoshka=(8,)))
    assert "projection" in trained.digests and trained.settings["matryoshka"] == [8]


def test_a_transformer_gets_a_projection_where_dimensions_differ(bert, swaps, tmp_path):
    run(swaps, tmp_path / "model", Start(bert, dim=20, fit_projection=True), replace(TRANSFORMER, max_steps=2))
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(tmp_path / "model"), device="cpu", local_files_only=True)
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling", "Dense"]
    assert model.get_embedding_dimension() == 20


def test_bf16(bert, swaps, tmp_path):
    trained = run(swaps, tmp_path / "model", bert, replace(TRANSFORMER, precision="bf16", max_steps=4))
    assert trained.steps == 4
    assert {value.dtype for value in weights(tmp_path / "model").values()} == {np.dtype("float32")}


def test_a_loss_that_is_no_number(files, tmp_path, monkeypatch, undisturbed):
    from distill.losses import DistillationLoss

    forward, calls = DistillationLoss.forward, []

    def diverge(self, features, labels):
        calls.append(1)
        return forward(self, features, labels) * (float("nan") if len(calls) == 7 else 1.0)

    monkeypatch.setattr(DistillationLoss, "forward", diverge)
    with pytest.raises(InputError, match="diverged: the loss of step 7 is nan; the checkpoints are kept"):
        run(files, tmp_path / "model")
    assert (tmp_path / "model.training/checkpoints/checkpoint-4/model.safetensors").is_file()
    assert run(files, tmp_path / "model") == undisturbed[1]  # goes on from there


@pytest.mark.parametrize(
    ("student", "changes", "message"),
    [
        (STUDENT, {"batch_size": 1000}, "pairs to train on are fewer than a batch of 1,000"),
        (STUDENT, {"batch_size": 33, "accumulate": 2}, "a batch of 33 cannot be cut into 2 equal parts"),
        (STUDENT, {"precision": "fp16"}, "fp16 needs a GPU"),
        (STUDENT, {"loss": "mze"}, "unknown loss 'mze'"),
        (STUDENT, {"best_by": "accuracy"}, "unknown development score 'accuracy'; did you mean"),
        (STUDENT, {"best_by": "sts_cross"}, "--best-by sts_cross needs the STS Benchmark"),
        (Start(STUDENT, freeze_layers=1), {}, "--freeze-layers is for transformers"),
        (STUDENT, {"weights": (("tiniest", 2.0),)}, "unknown corpus in --weight 'tiniest'; did you mean"),
        (STUDENT, {"matryoshka": (33,)}, "Matryoshka dimensions must be 1 to 32"),
        (Start(STUDENT, dim=33), {}, "--dim 33: the teacher's vectors have 32 dimensions"),
        (Start(STUDENT, keep_layers=1), {}, "--keep-layers is for transformers"),
        (STUDENT, {"dropout": 0.0}, "--dropout is for transformers"),
        (Start("no/such/folder"), {}, "no model folder 'no/such/folder'"),
        (Start("static:trigram-10"), {}, "a new static student is static:unigram-30000"),
        (Start("labse", init=("labse",)), {}, "--init is for a new static student"),
        (
            Start("static:pruned-90", init=("labse",), unseen_pieces=9),
            {},
            "--unseen-pieces is for static:pruned-N",
        ),
        (Start(STUDENT, init=("labse", "muse"), unseen_pieces=9), {}, "--unseen-pieces is for static:pruned-N"),
        (STUDENT, {"pivots": 1.5}, "--pivots 1.5: a share is between 0 and 1"),
    ],
)
def test_what_does_not_fit(files, tmp_path, student, changes, message):
    with pytest.raises(InputError, match=message):
        run(files, tmp_path / "model", student, replace(FAST, **changes))
    assert not (tmp_path / "model").exists()


def test_another_distillation_is_not_overwritten(files, tmp_path, undisturbed):
    other = replace(FAST, seed=1)
    with pytest.raises(InputError, match=r"is of a training with another seed \(42, now 1\).*--fresh"):
        run(files, undisturbed[0], recipe=other)
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="is there already; give another --name or --out"):
        run(files, tmp_path / "mine")
    with pytest.raises(Killed):
        run(files, tmp_path / "model", progress=Lines("step 4 of 12"))
    with pytest.raises(InputError, match="with another seed"):
        run(files, tmp_path / "model", recipe=other)
    assert run(files, tmp_path / "model", recipe=other, fresh=True).settings["seed"] == 1


def test_weights_and_caps_of_corpora(files):
    from types import SimpleNamespace

    parts = [SimpleNamespace(name=f"{name}.en-de") for name in ("big", "small", "out")]
    for part, start in zip(parts, (0, 900, 1000), strict=True):
        part.start = start
    pairs = SimpleNamespace(parts=parts, source_rows=np.arange(1100))
    recipe = replace(FAST, batch_size=100, epochs=2, max_steps=None, weights=(("out", 0.0), ("small.en-de", 4.0)))
    kept = np.flatnonzero(np.arange(1100) % 10)  # a tenth is held out
    batches = mixed_batches(recipe, pairs, kept)
    assert len(batches) == 18  # 2 x 900 pairs that have a weight
    numbers = np.concatenate(list(batches))
    assert numbers.max() < 900
    # The cap: no pair of the 90 more than five times an epoch.
    assert (numbers >= 810).sum() == 900


def test_evaluations_take_little_of_the_time():
    for recipe, total, sentences in ((Recipe(), 100_000, 5_000), (STATIC, 3_000, 5_000), (Recipe(), 300, 5_000)):
        every = evaluate_every(recipe, total, sentences)
        assert every == total or sentences <= 0.05 * every * 2 * recipe.batch_size
    assert evaluate_every(replace(Recipe(), eval_steps=7), 100, 5_000) == 7


def test_tokens_are_those_that_the_library_takes(tmp_path):
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    from distill.vocabulary import Tokens, train_tokenizer

    texts = ["ba de fi", "", "go", "fi fi ba", "?"] * 3
    tokenizer = train_tokenizer(texts * 20, "bpe", 30)
    module = StaticEmbedding(tokenizer, embedding_dim=4)
    for _ in range(2):  # written, then read
        tokens = Tokens.build(tokenizer, texts, tmp_path / "tokens")
        for rows in ([3, 1, 0, 0, 14], [1], [2, 1], list(range(15))):
            ids, starts = tokens.bags(np.array(rows))
            wanted = module.preprocess([texts[row] for row in rows])
            assert ids.tolist() == wanted["input_ids"].tolist() and starts.tolist() == wanted["offsets"].tolist()
        tokenizer = None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokens", "tokens.starts"]


def test_tokenised_beforehand_or_not_is_the_same(files, tmp_path, monkeypatch, undisturbed):
    """The undisturbed one reads 768 texts, of 720."""
    monkeypatch.setattr("distill.sampler.Tokens", None)
    features = training.student_features
    monkeypatch.setattr(
        training, "student_features", lambda student, pairs, n_texts, *rest: features(student, pairs, 0, *rest)
    )
    run(files, tmp_path / "model")
    assert folder_digest(tmp_path / "model") == folder_digest(undisturbed[0])
