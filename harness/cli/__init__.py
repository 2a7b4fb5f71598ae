"""The `leaderboard` command. Each command is an entry point of the group `harness.commands`, ours like anyone's.

Exit codes: 0 good; 1 a check failed; 2 bad input or usage, one line on stderr; 3 finished, but something that was
planned failed. Logs and progress go to stderr, data to stdout. Nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import errno
import io
import os
import select
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Annotated, Any, NoReturn, TextIO

import typer

from harness.core.errors import HarnessError
from harness.core.escaping import terminal

GROUP = "harness.commands"

INTERRUPTED = 128 + signal.SIGINT
"""The exit code, as shells report it."""

ENDINGS: list[Callable[[], None]] = []
"""Called just before an interrupted process is ended by force."""

_GRACE = 1.0  # seconds for the ordinary way
_STORE_NOTHING = ("check", "compare", "gate", "rerun", "speed")
_SOFTWARE_ERROR = 70  # EX_SOFTWARE of sysexits.h
_OF_OUTPUT = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EBADF)  # where an error names no file


def make_app(name: str = "") -> typer.Typer:
    """The command with all subcommands that installed packages offer: functions, or Typer apps for groups.

    With the name of one of them it has this one alone: to import and describe all takes longer than most of `show`.
    """
    app = typer.Typer(
        name="leaderboard",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help: importing rich would double the time that it takes
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_main_options)  # without a callback a single subcommand would be the command itself
    entries = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    for entry in [entry for entry in entries if entry.name == name] or entries:
        try:
            command = entry.load()
        except (Exception, SystemExit) as error:  # a third party's package may fail in any way, and ours goes on
            why = " ".join(str(error).split())
            say(f"warning: command {entry.name!r} ({entry.value}) cannot be imported: {why}")
            continue
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(entry.name)(command)
    return app


def _print_version(is_asked: bool) -> None:
    if is_asked:
        import harness

        typer.echo(harness.__version__)
        raise typer.Exit


def _main_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Which multilingual sentence embedding is best for my languages and my task?"""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    _mend_streams()
    sys.exit(_run(list(sys.argv[1:] if arguments is None else arguments)))


def _run(arguments: list[str]) -> int:
    farewell = _Farewell(arguments)
    try:
        with _prompt_interruption(farewell):
            code = make_app(*arguments[:1])(args=arguments, standalone_mode=False)
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
    except (OSError, MemoryError, UnicodeEncodeError) as error:
        if os.environ.get("HARNESS_DEBUG"):
            traceback.print_exc()
        _give_up_output()
        return _fail(_cause(error))
    except Exception as error:
        # Usage errors: their classes have moved between releases of Typer, their method has not.
        message = getattr(error, "format_message", None)
        if message is None:
            return _crash()
        if type(error).__name__ == "NoArgsIsHelpError":
            say(message())
            return 2
        return _fail(message().replace(": Value error, ", ": "))  # the validator's own words


@contextmanager
def _prompt_interruption(farewell: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C in the `with` block ends the process after a second at most, or at once when it is pressed again.

    Python raises KeyboardInterrupt between two steps of the main thread's Python code: not during a long call of
    compiled code (an encoder's batch, a product of matrices). The unwinding may then wait for threads that are in such
    a call. So another thread is told of the signal at once, and ends the process if it is still there after a moment.
    Nothing is lost: files are whole or not there.

    farewell: is called before the process is ended in this way.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    is_interrupted = threading.Event()
    threading.Thread(target=_end_if_interrupted, args=(reader, is_interrupted, farewell), daemon=True).start()
    try:
        yield
    finally:
        if not is_interrupted.is_set():  # else what is left to do, threads to be joined at exit, may take its time too
            signal.set_wakeup_fd(before)
            os.close(writer)


def _end_if_interrupted(reader: int, is_interrupted: threading.Event, farewell: Callable[[], None]) -> None:
    for number in iter(lambda: os.read(reader, 1), b""):
        if number[0] == signal.SIGINT:
            is_interrupted.set()
            select.select([reader], [], [], _GRACE)
            farewell()
            if sys.stderr.isatty():
                sys.stderr.write("\x1b[?25h")  # progress bars hide the cursor
                sys.stderr.flush()
            try:
                for end in ENDINGS:
                    end()
            finally:
                os._exit(INTERRUPTED)
    os.close(reader)


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
    """Print a line to stderr; what others wrote in it does nothing to the terminal."""
    print(terminal(line), file=sys.stderr, flush=True)


def echo(text: str) -> None:
    """Print to stdout what a renderer has made harmless.

    A reader that has gone (`| head`) changes nothing of the exit code: for commands that check.
    """
    try:
        typer.echo(text)
    except BrokenPipeError:
        _silence(sys.stdout)


def _mend_streams() -> None:
    """Make stdin, stdout and stderr what the rest takes them for, whatever the process was started with.

    A closed descriptor is filled, or the next file that is opened would get its number, and what is printed would go
    in there. Then reading from stdin gives nothing, writing to stdout fails, as on one that is closed, and stderr takes
    everything: what cannot be told is no reason to stop. A character that an encoding lacks is printed as an escape.
    """
    for descriptor, access in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, access), True)  # open takes the lowest number that is free
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115  (a number, for as long as the process)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stderr is sys.__stderr__:  # else somebody, a test say, has put another in its place
        _mend_stderr()


def _mend_stderr() -> None:
    if os.name != "posix" and isinstance(sys.stderr, io.TextIOWrapper):  # a console of Windows is more than a file
        sys.stderr.reconfigure(errors="backslashreplace")
        return
    encoding = sys.stderr.encoding if sys.stderr else "utf-8"
    raw = io.BufferedWriter(_Forgiving(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(raw, encoding, "backslashreplace", line_buffering=True)


class _Forgiving(io.FileIO):
    """A file that drops what it cannot take: a full disk, or a reader that has gone."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _give_up_output() -> None:
    """Drop what is still to be written to stdout, if that fails: Python would try once more at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        _silence(sys.stdout)


def _silence(stream: TextIO) -> None:
    """Let Python not try once more, at exit, to write what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _cause(error: OSError | MemoryError | UnicodeEncodeError) -> str:
    """What in the environment or in the input makes a command fail: none of these errors is a bug of ours."""
    if isinstance(error, UnicodeEncodeError):
        what = f"{error.object[: error.end][-40:]!r} cannot be written as {error.encoding} ({error.reason})"
        return f"{what}; change the name or the file that it comes from"
    if isinstance(error, MemoryError):
        return f"memory does not suffice ({error})" if str(error) else "memory does not suffice"
    reason = error.strerror or str(error) or type(error).__name__
    file = error.filename if error.filename2 is None else error.filename2
    if file is not None:
        return f"{os.fsdecode(file) if isinstance(file, bytes) else file}: {reason}"
    if error.errno in _OF_OUTPUT:
        return f"output cannot be written ({reason})"
    if error.errno == errno.ENOENT and not _is_somewhere():
        return "the current folder is no longer there; change to another one"
    return f"{reason}; HARNESS_DEBUG=1 prints where"


def _is_somewhere() -> bool:
    try:
        os.getcwd()  # noqa: PTH109  (Path.cwd imports nothing that it needs)
    except FileNotFoundError:
        return False
    return True


def _crash() -> int:
    """A bug, ours or a plug-in's: not one of the exit codes that mean something."""
    traceback.print_exc()
    return _SOFTWARE_ERROR


def _fail(message: str) -> int:
    say(f"error: {' '.join(message.split())}")
    return 2
