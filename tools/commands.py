"""The command line as an app that Typer can describe: `python -m typer tools/commands.py utils docs`."""

from harness.cli import make_app

app = make_app()
