"""What the command-line tests check again and again."""

from __future__ import annotations

import subprocess


def one_line_error(done: subprocess.CompletedProcess[str]) -> str:
    """The error of a command that was used wrongly: exit code 2, and one line that starts with `error:`."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert len(lines) == 1 and "Traceback" not in done.stderr, done.stderr
    return lines[0].removeprefix("error: ")
