"""The `leaderboard` command. Each command is an entry point of the group `harness.commands`, ours like anyone's.

Exit codes: 0 good; 1 a check failed; 2 bad input or usage, one line on stderr; 3 finished, but something that was
planned failed. Logs and progress go to stderr, data to stdout. Nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import errno
import os
import shlex
import sys
import threading
import traceback
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import NoReturn, TextIO

import typer

from harness.cli.interruption import INTERRUPTED, prompt_interruption
from harness.errors import HarnessError

GROUP = "harness.commands"
_STORE_NOTHING = ("check", "compare", "rerun")
_SOFTWARE_ERROR = 70  # EX_SOFTWARE of sysexits.h


def make_app() -> typer.Typer:
    """The command with all subcommands that installed packages offer: functions, or Typer apps for groups."""
    app = typer.Typer(
        name="leaderboard",
        help="Which multilingual sentence embedding is best for my languages and my task?",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help: importing rich would double the time that it takes
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            command = entry.load()
        except (Exception, SystemExit) as error:  # a third party's package may fail in any way, and ours goes on
            why = " ".join(str(error).split())
            print(f"warning: command {entry.name!r} ({entry.value}) cannot be imported: {why}", file=sys.stderr)
            continue
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(entry.name)(command)
    return app


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    sys.exit(_run(list(sys.argv[1:] if arguments is None else arguments)))


def _run(arguments: list[str]) -> int:
    farewell = _Farewell(arguments)
    try:
        with prompt_interruption(farewell):
            code = make_app()(args=arguments, standalone_mode=False)
            sys.stdout.flush()
        if code == INTERRUPTED:  # Typer has turned the KeyboardInterrupt into an exit code
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except HarnessError as error:
        return _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        farewell()
        return INTERRUPTED
    except SystemExit as error:
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        _silence(sys.stdout)  # Typer makes an exit code of 1 of it, which means that a check failed
        return 0
    except BrokenPipeError:  # the reader of our output (`| head`) has gone, which is no failure
        _silence(sys.stdout)
        return 0
    except OSError as error:
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EIO, errno.EFBIG):
            _silence(sys.stdout)
            return _fail(f"output cannot be written ({error.strerror})")
        return _crash()
    except Exception as error:
        # Usage errors: their classes have moved between releases of Typer, their method has not.
        message = getattr(error, "format_message", None)
        if message is None:
            return _crash()
        if type(error).__name__ == "NoArgsIsHelpError":
            say(message())
            return 2
        return _fail(message())


class _Farewell:
    """Says, once, how an interrupted command goes on."""

    def __init__(self, arguments: Sequence[str]):
        command = shlex.join(["leaderboard", *arguments])
        if arguments and arguments[0] in _STORE_NOTHING:
            self._line = f"stopped; nothing is stored, run the same command again: {command}"
        else:
            self._line = f"stopped; what was finished is stored, run the same command again to go on: {command}"
        self._lock, self._is_said = threading.Lock(), False

    def __call__(self) -> None:
        with self._lock:  # who comes second, and may end the process, waits until it is said
            if not self._is_said:
                self._is_said = True
                say(self._line)


def say(line: str) -> None:
    """Print a line to stderr; what cannot be written there (a full disk) is no reason to stop."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)


def echo(text: str) -> None:
    """Print to stdout. A reader that has gone (`| head`) changes nothing of the exit code: for commands that check."""
    try:
        typer.echo(text)
    except BrokenPipeError:
        _silence(sys.stdout)


def _silence(stream: TextIO) -> None:
    """Let Python not try once more, at exit, to write what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _crash() -> int:
    """A bug, ours or a plug-in's: not one of the exit codes that mean something."""
    traceback.print_exc()
    return _SOFTWARE_ERROR


def _fail(message: str) -> int:
    say(f"error: {' '.join(message.split())}")
    return 2
