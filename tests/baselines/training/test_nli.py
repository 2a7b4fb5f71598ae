"""The recipe through the real trainer, on a transformer of a few thousand weights."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
from tiny_models import SENTENCES, write_bert

from baselines.adapters.huggingface import folder_digest
from baselines.adapters.sentence_transformer import load
from baselines.training import model_folder, nli
from baselines.training.nli import Recipe, Stage, TrainingData, resolve_start, train
from baselines.training.training_data import ScoredPairs
from harness.core.errors import InputError
from harness.data.nli import NLIPairs

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")
pytest.importorskip("accelerate")
pytest.importorskip("datasets")
torch.set_num_threads(1)

WORDS = sorted({word.strip(",") for text in SENTENCES for word in text.split()})
FAST = Recipe(batch_size=8, learning_rate=2e-3, max_steps=8, eval_steps=3, max_length=20)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return str(write_bert(tmp_path_factory.mktemp("start") / "bert"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The same without dropout: what it computes in training is what it computes afterwards."""
    folder = write_bert(tmp_path_factory.mktemp("start") / "bert-without-dropout")
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def scored(n, seed):
    """Pairs of four words; the score is how many of them both have."""
    source = random.Random(seed)
    pairs = ScoredPairs([], [], [], [])
    for _ in range(n):
        common = source.randrange(5)
        words = source.sample(WORDS, 8)
        pairs.sentences1.append(" ".join(words[:4]))
        pairs.sentences2.append(" ".join(words[:common] + words[4 : 8 - common]))
        pairs.scores.append(1.25 * common)
    return pairs


def topical(n, seed):
    """Pairs without a common word; the score tells whether their words are of the same half of the vocabulary."""
    source = random.Random(seed)
    pairs = ScoredPairs([], [], [], [])
    for _ in range(n):
        one, two = source.randrange(2), source.randrange(2)
        words = [source.sample(WORDS[half::2], 6) for half in (0, 1)]
        pairs.sentences1.append(" ".join(words[one][:3]))
        pairs.sentences2.append(" ".join(words[two][3:]))
        pairs.scores.append(5.0 * (one == two))
    return pairs


def entailed(n, seed):
    source = random.Random(seed)
    labels = [source.randrange(3) for _ in range(n)]
    # What a class looks like: the word of the second sentence.
    return NLIPairs(
        [source.choice(WORDS) for _ in labels], [("ok", "man", "report")[label] for label in labels], labels
    )


DEV = {"en": scored(40, 1)}


def run(start, out, *stages, recipe=FAST, dev=DEV, settings=None, **options):
    given = {"card": lambda trained: "# a card\n", "on_cpu": True, **options}
    return train(start, recipe, TrainingData(list(stages), dev, settings or {}), out, **given)


def losses(stderr, stage):
    return [float(loss) for loss in re.findall(rf"stage {stage}: step .*: loss ([0-9.]+)", stderr)]


def weights(folder):
    from safetensors.numpy import load_file

    return load_file(Path(folder, "model.safetensors"))


def test_softmax_classifier_over_u_v_and_their_difference(plain, tmp_path, capsys, monkeypatch):
    """The loss of one step, and its head, against cross-entropy in plain Python."""
    from safetensors.numpy import load_file

    pairs, out = entailed(8, 0), tmp_path / "model"
    recipe = Recipe(batch_size=8, learning_rate=0.0, max_steps=1, max_length=20)
    monkeypatch.setattr(
        model_folder.shutil, "rmtree", lambda path, **options: None
    )  # the classifier is not in the model
    run(plain, out, Stage("nli", pairs, 1), recipe=recipe, dev={})
    heads = load_file(tmp_path / "model.training/nli/checkpoint-1/classifier.safetensors")
    assert {name: value.shape for name, value in heads.items()} == {"weight": (3, 3 * 32), "bias": (3,)}
    encoder = load(plain, device="cpu")
    expected = 0.0
    for u, v, label in zip(
        encoder.encode(pairs.sentences1).tolist(), encoder.encode(pairs.sentences2).tolist(), pairs.labels, strict=True
    ):
        features = u + v + [abs(a - b) for a, b in zip(u, v, strict=True)]
        logits = [
            sum(w * x for w, x in zip(row, features, strict=True)) + b
            for row, b in zip(heads["weight"].tolist(), heads["bias"].tolist(), strict=True)
        ]
        expected += math.log(sum(map(math.exp, logits))) - logits[label]
    assert losses(capsys.readouterr().err, "nli") == [pytest.approx(expected / 8, abs=1e-4)]


def test_regression_of_the_cosine_on_scores_from_0_to_1(plain, tmp_path, capsys):
    pairs = scored(8, 0)
    recipe = Recipe(batch_size=8, learning_rate=0.0, max_steps=1, max_length=20)
    trained = run(plain, tmp_path / "model", Stage("sts", pairs, 1), recipe=recipe)
    encoder = load(plain, device="cpu")
    one, two = encoder.encode(pairs.sentences1), encoder.encode(pairs.sentences2)
    cosines = [float(u @ v / math.sqrt(float(u @ u) * float(v @ v))) for u, v in zip(one, two, strict=True)]
    expected = sum((c - s / 5) ** 2 for c, s in zip(cosines, pairs.scores, strict=True)) / 8
    assert losses(capsys.readouterr().err, "sts") == [pytest.approx(expected, abs=1e-4)]
    assert trained.dev_before == trained.dev_after


def test_dev_score_is_spearmans_rho(start, tmp_path):
    from scipy.stats import spearmanr

    pairs = scored(40, 6)
    dev = pairs.without({row for row in range(40) if pairs.scores[row] == 5})  # equal sentences: ties up to rounding
    trained = run(start, tmp_path / "model", Stage("sts", scored(16, 0), 1), dev={"en": dev})
    encoder = load(str(tmp_path / "model"), device="cpu")
    one, two = encoder.encode(dev.sentences1), encoder.encode(dev.sentences2)
    cosines = (one * two).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(two, axis=1)
    assert trained.dev_after["en"] == pytest.approx(100 * spearmanr(cosines, dev.scores)[0], abs=0.001)


def test_both_stages_learn(start, tmp_path, capsys):
    recipe = Recipe(batch_size=8, learning_rate=3e-3, max_length=20)
    stages = Stage("nli", entailed(160, 2), 2), Stage("sts", topical(240, 3), 4)
    trained = run(start, tmp_path / "model", *stages, recipe=recipe, dev={"topics": topical(100, 1)})
    stderr = capsys.readouterr().err
    first, *_, last = losses(stderr, "nli")
    assert last < 0.8 < 1.0 < first  # log(3) = 1.1 is chance
    course = losses(stderr, "sts")
    assert np.mean(course[-5:]) < 0.9 * np.mean(course[:5])
    assert trained.dev_before["topics"] < 20 and trained.dev_after["topics"] > 40  # 87 is perfect, with two scores
    assert trained.steps == {"nli": 40, "sts": 120}


def test_the_best_checkpoint_on_dev_is_taken(start, tmp_path, capsys):
    """Dev scores the wrong way round: the longer it trains, the worse."""
    dev = {"en": ScoredPairs(DEV["en"].sentences1, DEV["en"].sentences2, [5 - s for s in DEV["en"].scores], [])}
    recipe = Recipe(batch_size=8, learning_rate=3e-3, max_steps=30, eval_steps=10, max_length=20)
    trained = run(start, tmp_path / "model", Stage("sts", scored(240, 3), 1), recipe=recipe, dev=dev)
    stderr = capsys.readouterr().err
    seen = {
        int(step): float(score) for step, score in re.findall(r"step (\d+) of 30: dev Spearman (-?[0-9.]+)", stderr)
    }
    assert sorted(seen) == [10, 20, 30] and seen[30] < max(seen.values())
    assert trained.best_step == max(seen, key=seen.__getitem__)
    assert trained.dev_after["en"] == pytest.approx(max(seen.values()), abs=0.01)


class Killed(BaseException):
    pass


def kill_at(monkeypatch, line):
    def say(text):
        if line in text:
            raise Killed

    monkeypatch.setattr(nli, "say", say)


@pytest.fixture(scope="module")
def undisturbed(start, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "model"
    return out, run(start, out, *STAGES)


STAGES = Stage("nli", entailed(64, 4), 1), Stage("sts", scored(64, 5), 1)


MOMENTS = ("stage nli: step 5 of", "stage sts: step 7 of", "dev after")


@pytest.mark.parametrize("moments", [MOMENTS, *(pytest.param([one], marks=pytest.mark.nightly) for one in MOMENTS)])
def test_killed_and_run_again_it_ends_with_the_same_numbers(start, tmp_path, monkeypatch, undisturbed, moments):
    out = tmp_path / "model"
    for moment in moments:
        kill_at(monkeypatch, moment)
        with pytest.raises(Killed):
            run(start, out, *STAGES)
        assert not out.exists()
    half = tmp_path / "model.training/nli/checkpoint-7"  # killed while it was written
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    monkeypatch.undo()
    lines: list[str] = []
    monkeypatch.setattr(nli, "say", lines.append)
    assert run(start, out, *STAGES) == undisturbed[1]
    assert not any("stage nli: step 1 of" in line for line in lines)
    assert folder_digest(out) == folder_digest(undisturbed[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    # Once more: it is there.
    assert run(start, out, *STAGES) == undisturbed[1] and lines[-1] == "model: complete, nothing to do"


def test_a_seed_decides_everything(start, tmp_path, undisturbed):
    run(start, tmp_path / "same", *STAGES)
    assert folder_digest(tmp_path / "same") == folder_digest(undisturbed[0])
    run(start, tmp_path / "other", *STAGES, recipe=Recipe(**{**vars(FAST), "seed": 1}))
    assert not np.allclose(
        weights(tmp_path / "other")["embeddings.word_embeddings.weight"],
        weights(undisturbed[0])["embeddings.word_embeddings.weight"],
    )


def test_the_folder_is_safe_and_whole(undisturbed):
    out, trained = undisturbed
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {"model.safetensors", "modules.json", "README.md", "training.json"} <= names
    assert not any(name.endswith((".bin", ".pt", ".pth", ".pkl")) for name in names)
    assert json.loads((out / "training.json").read_text())["dev_after"] == trained.dev_after


def test_the_prompt_is_trained_with_and_kept(start, tmp_path):
    recipe = Recipe(**{**vars(FAST), "prompt": "query: "})
    trained = run(start, tmp_path / "model", Stage("sts", scored(64, 5), 1), recipe=recipe)
    assert trained.settings["prompt"] == "query: "
    bare = load(str(tmp_path / "model"), prompt="", device="cpu").encode(["query: a man", "a man"])
    found = load(str(tmp_path / "model"), device="cpu")
    assert "prompt:query: " in found.fingerprint
    np.testing.assert_allclose(found.encode(["a man"])[0], bare[0], atol=1e-5)
    assert not np.allclose(bare[0], bare[1], atol=1e-2)
    run(start, tmp_path / "without", Stage("sts", scored(64, 5), 1))
    assert not np.allclose(
        weights(tmp_path / "model")["encoder.layer.0.output.dense.weight"],
        weights(tmp_path / "without")["encoder.layer.0.output.dense.weight"],
    )
    # A start with a prompt of its own keeps it.
    again = run(str(tmp_path / "model"), tmp_path / "again", Stage("sts", scored(64, 5), 1))
    assert again.settings["prompt"] == "query: "


def test_frozen_layers_stay_and_dropped_ones_go(start, tmp_path):
    before = weights(start)
    run(start, tmp_path / "frozen", *STAGES, recipe=Recipe(**{**vars(FAST), "freeze_layers": 1}))
    after = weights(tmp_path / "frozen")
    for name, value in after.items():
        if not name.startswith("pooler"):  # no sentence vector depends on it
            assert np.array_equal(value, before[name]) == name.startswith(("embeddings", "encoder.layer.0")), name
    run(start, tmp_path / "kept", STAGES[1], recipe=Recipe(**{**vars(FAST), "keep_layers": 1}))
    assert not any("layer.1" in name for name in weights(tmp_path / "kept"))
    assert load(str(tmp_path / "kept"), device="cpu").encode(["a man"]).shape == (1, 32)


def test_bf16(start, tmp_path):
    trained = run(start, tmp_path / "m", *STAGES, recipe=Recipe(**{**vars(FAST), "precision": "bf16"}))
    assert trained.steps == {"nli": 8, "sts": 8}
    assert {value.dtype for value in weights(tmp_path / "m").values()} == {np.dtype("float32")}


def test_a_loss_that_is_no_number(start, tmp_path, monkeypatch):
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    forward, calls = CosineSimilarityLoss.forward, []

    def diverge(self, features, labels):
        calls.append(1)
        return forward(self, features, labels) * (float("nan") if len(calls) == 5 else 1.0)

    monkeypatch.setattr(CosineSimilarityLoss, "forward", diverge)
    with pytest.raises(InputError, match="stage sts has diverged: the loss of step 5 is nan; the checkpoints are kept"):
        run(start, tmp_path / "model", Stage("sts", scored(64, 5), 1))
    assert (tmp_path / "model.training/sts/checkpoint-3/model.safetensors").is_file()
    trained = run(start, tmp_path / "model", Stage("sts", scored(64, 5), 1))  # goes on from there
    assert trained.steps == {"sts": 8}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 65}, "stage nli has 64 pairs, fewer than a batch of 65"),
        ({"keep_layers": 3}, "--keep-layers must be 1 to 2"),
        ({"keep_layers": 0}, "--keep-layers must be 1 to 2"),
        ({"freeze_layers": 3}, "--freeze-layers must be 0 to 2"),
        ({"max_length": 41}, "max_length must be 3 to 40"),
        ({"precision": "fp16"}, "fp16 needs a GPU"),
    ],
)
def test_recipes_that_do_not_fit(start, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        run(start, tmp_path / "model", *STAGES, recipe=Recipe(**{**vars(FAST), **changes}))
    assert not (tmp_path / "model").exists()


def test_another_training_is_not_overwritten(start, tmp_path, monkeypatch, undisturbed):
    other = Recipe(**{**vars(FAST), "seed": 1})
    with pytest.raises(InputError, match=r"is of a training with another seed \(42, now 1\).*--fresh"):
        run(start, undisturbed[0], *STAGES, recipe=other)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(InputError, match="is there already; give another --name or --out"):
            run(start, tmp_path / "mine", *STAGES, fresh=fresh)
        with pytest.raises(InputError, match="is what the training begins with"):
            run(str(undisturbed[0]), undisturbed[0], *STAGES, fresh=fresh)
    assert (tmp_path / "mine/thesis.txt").read_text() == "mine" and load(str(undisturbed[0]), device="cpu").dim == 32
    kill_at(monkeypatch, "stage nli: step 5 of")
    with pytest.raises(Killed):
        run(start, tmp_path / "model", *STAGES)
    monkeypatch.undo()
    with pytest.raises(InputError, match="with another seed"):
        run(start, tmp_path / "model", *STAGES, recipe=other)
    assert run(start, tmp_path / "model", *STAGES, recipe=other, fresh=True).settings["seed"] == 1


@pytest.mark.parametrize("content", ["", "[]", "[1]", '{"a": 1}', '{"settings": 1}', '{"settings": {}}'])
def test_a_record_of_something_else(start, tmp_path, undisturbed, content):
    out = tmp_path / "model"
    out.mkdir()
    settings = json.dumps(undisturbed[1].settings)
    (out / "training.json").write_text(content.replace("{}", settings))
    with pytest.raises(InputError, match=r"training\.json is damaged or of another command; give another") as raised:
        run(start, out, *STAGES)
    assert "\n" not in str(raised.value)
    if content == "[]":
        assert run(start, out, *STAGES, fresh=True) == undisturbed[1]
        assert [path.name for path in tmp_path.iterdir()] == ["model"]
        assert folder_digest(out) == folder_digest(undisturbed[0])


def test_starts():
    assert resolve_start("xlmr-mean") == ("FacebookAI/xlm-roberta-base", None)
    assert resolve_start("e5-base") == ("intfloat/multilingual-e5-base", "query: ")
    assert resolve_start("some/model") == ("some/model", None)
    with pytest.raises(InputError, match="encoder 'muse' cannot be trained here"):
        resolve_start("muse")
