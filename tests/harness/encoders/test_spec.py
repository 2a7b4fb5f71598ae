import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import InputError
from harness.encoders.spec import Spec, parse_spec


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("muse", Spec("muse")),
        ("muse?", Spec("muse")),
        ("laser:some/dir", Spec("laser", "some/dir")),
        ("python:package.module:factory", Spec("python", "package.module:factory")),
        ("tfhub:https://tfhub.dev/google/x/3", Spec("tfhub", "https://tfhub.dev/google/x/3")),
        ("m:x?a=1&b=2", Spec("m", "x", {"a": "1", "b": "2"})),
        ("m:x?a=b?c=d", Spec("m", "x", {"a": "b?c=d"})),
        ("e5?prompt=query: ", Spec("e5", None, {"prompt": "query: "})),
        ("e5?prompt=query:%20", Spec("e5", None, {"prompt": "query: "})),
        ("e5?prompt= x", Spec("e5", None, {"prompt": " x"})),
        ("e5?prompt=a+b", Spec("e5", None, {"prompt": "a+b"})),
        ("e5?prompt=%26%3D%25%C3%A9é", Spec("e5", None, {"prompt": "&=%éé"})),
        ("e5?prompt=", Spec("e5", None, {"prompt": ""})),
        ("e5?a=b=c", Spec("e5", None, {"a": "b=c"})),
        ("static:C:\\models\\x", Spec("static", "C:\\models\\x")),
    ],
)
def test_parse(text, expected):
    assert parse_spec(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "neither ALIAS nor KIND:LOCATION"),
        ("?a=1", "neither ALIAS nor KIND:LOCATION"),
        ("laser:", "neither ALIAS nor KIND:LOCATION"),
        ("laser:?a=1", "neither ALIAS nor KIND:LOCATION"),
        (":x", "neither ALIAS nor KIND:LOCATION"),
        ("m?a", "option 'a' is not key=value"),
        ("m?=1", "option '=1' is not key=value"),
        ("m?a=1&", "option '' is not key=value"),
        ("m?a=1&a=2", "option 'a' is given twice"),
    ],
)
def test_parse_refuses(text, message):
    with pytest.raises(InputError, match=message):
        parse_spec(text)


WORD = st.text("abcXYZ019-_.", min_size=1, max_size=8)
# What does not look like a path: of a path only the last component is printed.
LOCATION = st.lists(WORD, min_size=1, max_size=3).map("/".join).filter(lambda text: not text.startswith("."))
VALUE = st.text(max_size=12)


@given(WORD, st.none() | LOCATION, st.dictionaries(WORD, VALUE.filter(lambda text: "/." not in text), max_size=4))
def test_printed_form_parses_back(head, location, options):
    spec = Spec(head, location, options)
    assert parse_spec(str(spec)) == spec


@given(st.text())
def test_any_text_parses_or_is_refused(text):
    try:
        spec = parse_spec(text)
    except InputError as error:
        assert str(error)
    else:
        assert isinstance(str(spec), str)


@pytest.mark.parametrize(
    "location",
    ["/home/me/models/x", "./models/x", "../x", ".models/x", "~/x", "~me/x", "/x/", "C:\\me\\x", "file:///me/x"],
)
def test_printed_form_has_no_machine_path(location):
    assert str(Spec("laser", location)) == "laser:x"


@pytest.mark.parametrize(
    "location", ["org/model", "models/x", "my.package:factory", "m:factory", "https://tfhub.dev/google/x/3", "a~b/.c"]
)
def test_location_that_is_no_path_of_this_machine_is_kept(location):
    assert str(Spec("laser", location)) == f"laser:{location}"


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("HERE/w", "w"),
        ("HERE/a b/", "a b"),
        ("file://HERE/w", "w"),
        ("~/w", "w"),
        ("a=HERE/w", "a%3Dw"),
        ("HERE/w,HERE/a b:~/w", "w,a b:w"),
        ("HERE/k=v,", "k%3Dv,"),
        ("HERE/k=v", "k%3Dv"),
    ],
)
def test_printed_value_has_no_path_of_what_is_on_this_machine(tmp_path, monkeypatch, value, printed):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("w", "k=v", "k=v,"):
        (tmp_path / name).touch()
    (tmp_path / "a b").mkdir()
    text = str(Spec("m", None, {"p": value.replace("HERE", str(tmp_path))}))
    assert text == f"m?p={printed}"


@pytest.mark.parametrize(
    "prompt",
    [
        "/query: ",
        "~q/: ",
        "/",
        "~",
        "/no/such/file",
        "C:\\none",
        ".",
        "../x",
        "a/b",
        "/" + "x" * 999,
        "/\0",
        "~\0",
        "/é ",
    ],
)
def test_printed_value_that_only_looks_like_a_path_is_kept(prompt):
    spec = Spec("e5", None, {"prompt": prompt})
    assert parse_spec(str(spec)) == spec


def test_printed_prompt_is_what_was_given():
    assert str(parse_spec("e5?prompt=/query: ")) == "e5?prompt=/query: "


@pytest.mark.parametrize("location", ["/", ".", "..", "../.."])
def test_printed_form_of_a_path_without_last_component_parses(location):
    assert parse_spec(str(Spec("laser", location))).location in (".", "..")


def test_printed_form_of_undecodable_bytes_does_not_fail():
    assert str(parse_spec("m?a=\udcff")) == "m?a=%3F"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("muse", "muse"),
        ("muse?batch_size=3", "muse"),
        ("muse?name=mine", "mine"),
        ("mean-pooling:org/xlm-r_base", "xlm-r_base"),
        ("mean-pooling:/home/me/model.v2", "model.v2"),
        ("mean-pooling:/home/me/model/", "model"),
        ("tfhub:https://tfhub.dev/google/LaBSE/2", "LaBSE"),
        ("tfhub:google/LaBSE/2?name=mine", "mine"),
        ("laser:2", "2"),
        ("python:package.module:factory", "factory"),
        ("python:package.module:object.inner", "inner"),
        ("laser:.?name=laser", "laser"),
    ],
)
def test_stored_name(text, name):
    assert parse_spec(text).stored_name == name


@pytest.mark.parametrize(
    "text", ["laser:.", "laser:/", "laser:..", "m?name=", "m?name=a/b", "m?name=..", "m?name=a%0A"]
)
def test_name_that_cannot_name_a_folder_is_refused(text):
    with pytest.raises(InputError, match="cannot name a folder; add name="):
        parse_spec(text).stored_name  # noqa: B018
