"""The losses against plain Python loops in float64, and against sentence-transformers' own."""

import math

import numpy as np
import pytest

from harness.core.errors import InputError

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")
torch.set_num_threads(1)

from distill.losses import DistillationLoss, embed, parse_kind, translation_ranking  # noqa: E402
from distill.teacher import TeacherVectors  # noqa: E402

DIM, N = 5, 7
ROWS = [3, 0, 3, 2, 5, 0, 1]  # rows 3 and 0 have two translations each


class Lookup(torch.nn.Module):
    """A student whose sentences are numbers and whose vectors are learnt, float64."""

    def __init__(self, n=40, dim=DIM, seed=0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.nn.Parameter(torch.randn(n, dim, generator=generator, dtype=torch.float64))

    def get_embedding_dimension(self):
        return self.table.shape[1]

    @property
    def device(self):
        return self.table.device

    def forward(self, features):
        return {"sentence_embedding": self.table[features["ids"]]}


@pytest.fixture
def model():
    return Lookup()


@pytest.fixture
def teacher():
    return make_teacher(DIM)


def make_teacher(dim):
    vectors = np.random.default_rng(1).standard_normal((6, dim)).astype(np.float32)
    return TeacherVectors(vectors, "teacher", "")


def batch():
    features = [{"ids": torch.arange(N)}, {"ids": torch.arange(20, 20 + N)}]
    return features, torch.tensor(ROWS)


def vectors_of(model, teacher):
    """Source, target and teacher's vectors of the batch as lists of numbers."""
    table = model.table.detach().numpy()
    wanted = teacher[np.array(ROWS)].astype(np.float64)
    return table[:N].tolist(), table[20 : 20 + N].tolist(), wanted.tolist()


def cosine(u, v):
    norms = math.sqrt(sum(a * a for a in u)) * math.sqrt(sum(b * b for b in v))
    return sum(a * b for a, b in zip(u, v, strict=True)) / norms


def mse_by_loop(source, target, wanted):
    total = 0.0
    for s, t, m in zip(source, target, wanted, strict=True):
        total += sum((a - b) ** 2 for a, b in zip(m, s, strict=True)) / len(m)
        total += sum((a - b) ** 2 for a, b in zip(m, t, strict=True)) / len(m)
    return total / len(wanted)


def cosine_by_loop(source, target, wanted):
    total = sum(2 - cosine(m, s) - cosine(m, t) for s, t, m in zip(source, target, wanted, strict=True))
    return total / len(wanted)


def ranking_by_loop(source, target, rows, margin, scale):
    """Feng et al. 2022, equations 1 to 3, with a scale, and without the negatives that are translations."""

    def one_direction(xs, ys):
        total = 0.0
        for i, x in enumerate(xs):
            own = math.exp(scale * (cosine(x, ys[i]) - margin))
            others = [math.exp(scale * cosine(x, y)) for n, y in enumerate(ys) if n != i and rows[n] != rows[i]]
            total += math.log(own / (own + sum(others)))
        return -total / len(xs)

    return one_direction(source, target) + one_direction(target, source)


def test_mse(model, teacher):
    loss = DistillationLoss(model, teacher, "mse")(*batch()).item()
    assert loss == pytest.approx(mse_by_loop(*vectors_of(model, teacher)), rel=1e-12)


def test_mse_is_twice_the_librarys_and_has_its_gradient(model, teacher):
    from sentence_transformers.sentence_transformer.losses import MSELoss

    features, rows = batch()
    ours = DistillationLoss(model, teacher, "mse")(features, rows)
    (gradient,) = torch.autograd.grad(ours, model.table)
    theirs = MSELoss(model)(batch()[0], torch.from_numpy(teacher[rows.numpy()]))
    torch.testing.assert_close(ours, 2 * theirs, rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient, 2 * torch.autograd.grad(theirs, model.table)[0], rtol=1e-12, atol=0)


def test_cosine(model, teacher):
    loss = DistillationLoss(model, teacher, "cosine")(*batch()).item()
    assert loss == pytest.approx(cosine_by_loop(*vectors_of(model, teacher)), rel=1e-12)


@pytest.mark.parametrize("margin, scale", [(0.3, 1.0), (0.0, 1.0), (0.3, 20.0), (0.1, 5.0)])
def test_ranking(model, teacher, margin, scale):
    source, target, _ = vectors_of(model, teacher)
    expected = ranking_by_loop(source, target, ROWS, margin, scale)
    loss = DistillationLoss(model, teacher, "ranking", margin=margin, scale=scale)(*batch())
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    loss.backward()
    assert torch.isfinite(model.table.grad).all() and model.table.grad.any()
    # The masked pairs make a difference, or the test above could not tell.
    assert expected != pytest.approx(ranking_by_loop(source, target, range(N), margin, scale), rel=1e-3)


def test_ranking_of_one_sentence_alone_is_zero(model):
    vectors = torch.randn(4, DIM, dtype=torch.float64)
    rows = torch.tensor([2, 2, 2, 2])
    assert translation_ranking(vectors, vectors.flip(0), rows, margin=0.3, scale=20).item() == 0


def test_sums_and_weights(model, teacher):
    source, target, wanted = vectors_of(model, teacher)
    by_loop = {
        "mse": mse_by_loop(source, target, wanted),
        "cosine": cosine_by_loop(source, target, wanted),
        "ranking": ranking_by_loop(source, target, ROWS, 0.3, 20.0),
    }
    for kind, weights in {
        "cosine+ranking": {"cosine": 1, "ranking": 1},
        "mse+0.25*ranking": {"mse": 1, "ranking": 0.25},
        "2*mse+3*cosine+0.5*ranking": {"mse": 2, "cosine": 3, "ranking": 0.5},
    }.items():
        assert parse_kind(kind) == weights
        expected = sum(weight * by_loop[name] for name, weight in weights.items())
        assert DistillationLoss(model, teacher, kind)(*batch()).item() == pytest.approx(expected, rel=1e-12)


def test_matryoshka_is_the_mean_over_the_first_dimensions(model, teacher):
    source, target, wanted = vectors_of(model, teacher)
    expected = 0.0
    for dim in (2, 3, DIM):
        s, t, m = ([vector[:dim] for vector in vectors] for vectors in (source, target, wanted))
        expected += (mse_by_loop(s, t, m) + ranking_by_loop(s, t, ROWS, 0.3, 20.0)) / 3
    loss = DistillationLoss(model, teacher, "mse+ranking", dims=[3, 2])
    assert loss(*batch()).item() == pytest.approx(expected, rel=1e-12)


def test_a_projection_of_the_teacher(model):
    teacher = make_teacher(8)
    projection = np.random.default_rng(2).standard_normal((8, DIM))
    source, target, wanted = vectors_of(model, teacher)
    wanted = [[sum(m[i] * projection[i, j] for i in range(8)) for j in range(DIM)] for m in wanted]
    loss = DistillationLoss(model, teacher, "mse", projection=projection)
    assert loss(*batch()).item() == pytest.approx(mse_by_loop(source, target, wanted), rel=1e-12)
    assert not loss.state_dict().keys() - {"model.table"}  # no checkpoint depends on it


def test_half_precision_is_for_the_student_alone(teacher):
    model = Lookup().float()
    loss = DistillationLoss(model, teacher, "mse+cosine+ranking")
    exact = loss(*batch()).item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(*batch()).item() == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(
    "kind, message",
    [
        ("mean", "unknown loss 'mean'"),
        ("", "unknown loss ''"),
        ("mse+", "unknown loss ''"),
        ("mse+mse", "names mse twice"),
        ("x*mse", "a weight is a number above 0, not 'x'"),
        ("-1*mse", "a weight is a number above 0, not '-1'"),
        ("0*mse", "a weight is a number above 0, not '0'"),
        ("inf*mse", "a weight is a number above 0, not 'inf'"),
    ],
)
def test_unknown_kinds(model, teacher, kind, message):
    with pytest.raises(InputError, match=message.replace("*", r"\*")):
        DistillationLoss(model, teacher, kind)


def test_dimensions_that_do_not_fit(model, teacher):
    with pytest.raises(InputError, match="student's vectors have 5 dimensions, the teacher's 8"):
        DistillationLoss(model, make_teacher(8), "cosine+ranking")
    DistillationLoss(model, make_teacher(8), "ranking")(*batch())  # which needs no teacher
    with pytest.raises(InputError, match=r"projection .* shape \(8, 4\), not \(8, 5\)"):
        DistillationLoss(model, make_teacher(8), "mse", projection=np.zeros((8, 4)))
    with pytest.raises(InputError, match="must be 1 to 5, the student's, not 2, 6"):
        DistillationLoss(model, teacher, "mse", dims=[2, 6])


def test_the_librarys_trainer_trains_with_it(tmp_path, teacher):
    pytest.importorskip("accelerate")
    datasets = pytest.importorskip("datasets")
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate("uabcdef")}, unk_token="u"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    torch.manual_seed(0)
    student = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=DIM)], device="cpu")
    loss = DistillationLoss(student, teacher, "mse")
    columns = {"source": ["a", "b", "c"], "target": ["d", "e", "f"], "label": [4, 0, 2]}

    def error():
        found = student.encode([*"abcdef"], show_progress_bar=False)
        return float(((found - teacher[np.array([4, 0, 2] * 2)]) ** 2).mean())

    before = error()
    arguments = Arguments(
        str(tmp_path), max_steps=120, learning_rate=0.2, per_device_train_batch_size=3, use_cpu=True, report_to="none",
        save_strategy="no", disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip
    SentenceTransformerTrainer(
        model=student, args=arguments, train_dataset=datasets.Dataset.from_dict(columns), loss=loss
    ).train()
    assert error() < 0.05 * before


@pytest.mark.parametrize("padding", ["right", "left"])
def test_a_large_batch_in_parts_by_length_has_the_same_vectors(padding):
    class Masked(torch.nn.Module):
        """The mean of x^2 over the tokens; says how wide its inputs are."""

        def __init__(self):
            super().__init__()
            self.widths = []

        def get_embedding_dimension(self):
            return DIM

        def forward(self, features):
            ids, mask = features["input_ids"].double(), features["attention_mask"]
            self.widths.append(ids.shape[1])
            mean = (ids**2 * mask).sum(1) / mask.sum(1)
            return {"sentence_embedding": mean[:, None] ** torch.arange(1, DIM + 1)}

    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 40, 200)
    mask = torch.from_numpy(np.arange(40) < lengths[:, None]).long()
    if padding == "left":
        mask = mask.flip(1)
    features = {"input_ids": torch.from_numpy(rng.integers(1, 9, (200, 40))), "attention_mask": mask, "other": 3}
    model = Masked()
    for part, n_parts in ((None, 13), (64, 4), (200, 1)):
        model.widths.clear()
        torch.testing.assert_close(embed(model, features, part), model(features)["sentence_embedding"])
        assert len(model.widths) == n_parts + 1
        assert n_parts == 1 or sum(model.widths[:-1]) < 0.75 * 40 * n_parts  # not padded to 40 each
