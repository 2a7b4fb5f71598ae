import subprocess
import sys
import textwrap

import numpy as np
import pytest

from harness.core.errors import InputError, MissingExtraError
from harness.encoders.registry import check_spec, load_encoder

MODULE = '''
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Literal

import numpy as np
from harness.core.errors import MissingExtraError

if TYPE_CHECKING:
    from harness.encoders.encoder import Encoder


class Mine:
    """Has no name: the spec string gives it one."""

    uses_lang = False

    def __init__(self, dim: int = 4, *, scale: float = 1.0, pooling: Literal["mean", "max"] = "mean", device=None):
        self.dim = dim
        self.device = device
        self.fingerprint = f"mine;{dim!r};{scale!r};{pooling}"

    def encode(self, sentences, *, lang=None):
        return np.ones((len(sentences), self.dim), np.float32)


def factory(*, dim: int = 4, flag: bool = False, plain=3) -> Encoder:
    encoder = Mine(dim)
    encoder.name = "own-name"
    encoder.fingerprint += f";{flag!r};{plain!r}"
    return encoder


def anything(**options):
    encoder = Mine()
    encoder.fingerprint = repr(options)
    return encoder


def needs(path: str):
    return Mine()


partial = functools.partial(factory, dim=9)
ready_made = Mine(3)
holder = type("Holder", (), {"inner": Mine(5)})


def fails():
    raise RuntimeError("the weights are gone\\nsecond line")


def needs_extra():
    raise MissingExtraError("this encoder", "torch")


def returns_text():
    return "not an encoder"


number = 3
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current directory, with the module `my_encoders` and the package `pack.inner`."""
    (tmp_path / "my_encoders.py").write_text(MODULE)
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "inner.py").write_text("from my_encoders import Mine")
    (tmp_path / "broken_module.py").write_text("import no_such_package_at_all")
    (tmp_path / "a_script.py").write_text("raise SystemExit('usage: ...')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("my_encoders", "pack", "broken_module", "a_script"):
            del sys.modules[name]


def test_factory_with_converted_options(here):
    encoder = load_encoder("python:my_encoders:factory?dim=6&flag=true&plain=5")
    assert encoder.dim == 6
    assert encoder.fingerprint == "mine;6;1.0;mean;True;5"
    assert encoder.name == "factory"
    assert encoder.encode(["a", "b"], lang="en").shape == (2, 6)


def test_class_in_a_package_as_factory(here):
    encoder = load_encoder(
        "python:pack.inner:Mine?dim=2&scale=0.5&pooling=max&name=my-name", device="cpu", batch_size=8
    )
    assert (encoder.name, encoder.fingerprint) == ("my-name", "mine;2;0.5;max")
    assert encoder._encoder.device == "cpu"  # a default that the factory takes; it takes no batch_size


@pytest.mark.parametrize(("location", "dim"), [("ready_made", 3), ("holder.inner", 5), ("partial", 9)])
def test_encoder_that_is_there_already_and_partial(here, location, dim):
    encoder = load_encoder(f"python:my_encoders:{location}")
    assert (encoder.name, encoder.dim) == (location.rpartition(".")[2], dim)


def test_options_are_strings_where_the_factory_takes_any(here):
    encoder = load_encoder("python:my_encoders:anything?a=1&b=x y")
    assert encoder.fingerprint == repr({"a": "1", "b": "x y", "name": "anything"})


@pytest.mark.parametrize(
    ("location", "message"),
    [
        (
            "no_such_module:f",
            "encoder 'python:no_such_module:f': module no_such_module cannot be imported: .*No module",
        ),
        ("my_encoders:nothing", "module my_encoders has no nothing"),
        ("my_encoders:holder.nothing", "module my_encoders has no holder.nothing"),
        ("broken_module:f", "broken_module cannot be imported: ModuleNotFoundError: .*no_such_package_at_all"),
        ("a_script:f", "a_script cannot be imported: SystemExit: usage"),
        ("my_encoders:fails", "'python:my_encoders:fails': fails failed: RuntimeError: the weights are gone$"),
        ("my_encoders:returns_text", "'python:my_encoders:returns_text': str is no encoder, it lacks fingerprint, dim"),
        ("my_encoders:number", "int is neither an encoder nor a factory"),
        ("my_encoders:needs", "missing a required argument: 'path'"),
        ("my_encoders:factory?dimm=3", "unknown option of encoder 'python:my_encoders:factory' 'dimm'; .*'dim'"),
        ("my_encoders:factory?dim=x", "option dim is a whole number, not 'x'"),
        ("my_encoders:Mine?pooling=sum", "unknown value of .*option pooling 'sum'"),
        ("my_encoders:ready_made?dim=3", "unknown option"),
        ("my_encoders", "write python:package.module:factory"),
        ("my_encoders:", "write python:package.module:factory"),
        (".my_encoders:f", "write python:package.module:factory"),
        ("folder/my_encoders.py:f", "write python:package.module:factory"),
    ],
)
def test_error_names_module_and_factory_in_one_line(here, location, message):
    with pytest.raises(InputError, match=message) as caught:
        load_encoder(f"python:{location}")
    text = str(caught.value)
    assert "\n" not in text
    assert all(part in text for part in location.partition("?")[0].split(":"))


def test_what_can_be_is_checked_before_loading(here):
    with pytest.raises(InputError, match="dimm"):
        check_spec("python:my_encoders:factory?dimm=3")
    check_spec("python:my_encoders:fails")  # not called yet


def test_errors_that_tell_what_to_do_pass_through(here):
    with pytest.raises(MissingExtraError, match=r"this encoder needs: pip install .*\[torch\]"):
        load_encoder("python:my_encoders:needs_extra")


def test_current_directory_is_searched_as_by_python_m(here):
    code = """
        import sys
        from harness.encoders.registry import load_encoder
        sys.path = [entry for entry in sys.path if entry]
        print(load_encoder("python:my_encoders:factory").dim)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=here, capture_output=True, text=True, check=True
    )
    assert done.stdout == "4\n"


def test_vectors_pass_through_the_name_that_the_registry_gives(here):
    encoder = load_encoder("python:my_encoders:Mine")
    np.testing.assert_array_equal(encoder.encode(["x"]), np.ones((1, 4), np.float32))
    assert (encoder.name, encoder.uses_lang) == ("Mine", False)
