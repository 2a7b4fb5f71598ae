"""`distill interpolate`: weights between a start and what was trained from it."""

from __future__ import annotations

import json
import shutil

import pytest
from tiny_models import SENTENCES, write_bert, write_sentence_transformer, write_xlm_r

from harness.core.errors import InputError

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")
torch.set_num_threads(1)

from safetensors.numpy import load_file  # noqa: E402

from baselines.adapters import sentence_transformer  # noqa: E402
from distill.students import (  # noqa: E402
    RECORD_FILE,
    Pruning,
    interpolate,
    transformer_student,
)

TABLE = "embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("models") / "start")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, start):
    """A model of the start's shape with other weights, as a training leaves it."""
    place = tmp_path_factory.mktemp("models")
    folder = write_sentence_transformer(place / "trained", write_bert(place / "bert", seed=1))
    (folder / "training.json").write_text('{"steps": 1}', encoding="utf-8")
    return folder


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_every_weight_is_between(share, start, trained, tmp_path):
    interpolate(trained, str(start), share, tmp_path / "out")
    first, last = load_file(start / "model.safetensors"), load_file(trained / "model.safetensors")
    blended = load_file(tmp_path / "out" / "model.safetensors")
    assert blended.keys() == last.keys()
    for name, weights in blended.items():
        if name.startswith("pooler."):  # no part of mean pooling
            assert (weights == last[name]).all()
        else:
            assert weights == pytest.approx((1 - share) * first[name] + share * last[name], abs=1e-6)


def test_the_projection_stays_as_it_was_trained(start, trained, tmp_path):
    interpolate(trained, str(start), 0.5, tmp_path / "out")
    dense = "2_Dense/model.safetensors"
    before, after = load_file(trained / dense), load_file(tmp_path / "out" / dense)
    assert before.keys() == after.keys()
    assert all((before[name] == after[name]).all() for name in before)


def test_a_student_with_fewer_tokens_and_layers(tmp_path):
    """All the way back is the pruned start itself."""
    start = write_xlm_r(tmp_path / "start")
    counts = [0.0] * len(json.loads((start / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"])
    counts[10:20] = [5.0] * 10
    pruned = transformer_student(
        str(start), 24, keep_layers=1, pruning=Pruning(torch.tensor(counts).numpy(), 20), max_length=20
    )
    pruned.save_pretrained(str(tmp_path / "pruned"))
    expected = load_file(tmp_path / "pruned" / "model.safetensors")
    with torch.no_grad():
        for weight in pruned.transformers_model.parameters():
            weight.add_(1.0)
    pruned.save_pretrained(str(tmp_path / "student"))
    interpolate(tmp_path / "student", str(start), 0.0, tmp_path / "out")
    restored = load_file(tmp_path / "out" / "model.safetensors")
    assert len(restored[TABLE]) < len(load_file(start / "model.safetensors")[TABLE])
    for name, weights in expected.items():
        if not name.startswith("pooler."):
            assert weights == pytest.approx(restored[name], abs=1e-6)


def test_on_the_command_line(torch_leaderboard, start, trained, tmp_path):
    out = tmp_path / "half"
    done = torch_leaderboard("distill", "interpolate", str(trained), str(out), "--start", str(start))
    assert (done.returncode, done.stdout.strip()) == (0, str(out))
    assert (out / "training.json").read_bytes() == (trained / "training.json").read_bytes()
    record = json.loads((out / RECORD_FILE).read_text(encoding="utf-8"))
    assert (record["share"], len(record["trained_sha256"])) == (0.5, 64)
    assert sentence_transformer.load(str(out), device="cpu").encode(SENTENCES).shape == (len(SENTENCES), 16)


def test_another_start(trained, tmp_path):
    with pytest.raises(InputError, match=r"is not what 'trained' was trained from: it lacks tokens such as "):
        interpolate(trained, str(write_xlm_r(tmp_path / "start")), 0.5, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_start_with_fewer_layers(start, trained, tmp_path):
    fewer = transformer_student(str(start), 32, keep_layers=1, max_length=20)
    fewer.save_pretrained(str(tmp_path / "fewer"))
    with pytest.raises(InputError, match=r"its weights encoder\.layer\.1\..* are missing or of another shape"):
        interpolate(trained, str(tmp_path / "fewer"), 0.5, tmp_path / "out")


@pytest.mark.parametrize(
    ("share", "change", "message"),
    [
        (1.5, lambda folder: None, "--share is between 0"),
        (0.5, shutil.rmtree, "no model folder"),
        (0.5, lambda folder: (folder.parent / "out").mkdir(), "is there already"),
    ],
)
def test_bad_input(share, change, message, start, trained, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(trained, folder)
    change(folder)
    with pytest.raises(InputError, match=message):
        interpolate(folder, str(start), share, tmp_path / "out")


def test_a_static_student_has_no_transformer(start, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(start / "tokenizer.json"))
    static = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=4)], device="cpu")
    static.save_pretrained(str(tmp_path / "static"))
    with pytest.raises(InputError, match="has no transformer"):
        interpolate(tmp_path / "static", str(start), 0.5, tmp_path / "out")
