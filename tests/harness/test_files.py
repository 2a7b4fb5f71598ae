"""Files that are whole or not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness import files

KILLED = """
import os, signal, sys
from pathlib import Path
from harness import files

with files.replacing(Path(sys.argv[1])) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_takes_its_place_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.json"
    with files.replacing(path) as stream:
        stream.write(b"old")
        assert not path.exists()
    with files.replacing(path) as stream:
        stream.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new" and names(path.parent) == ["a.json"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(KeyboardInterrupt), files.replacing(tmp_path / "a") as stream:
        stream.write(b"new")
        raise KeyboardInterrupt
    assert (tmp_path / "a").read_text() == "old" and names(tmp_path) == ["a"]


@pytest.mark.skipif(os.name != "posix", reason="needs locks of files")
def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    for number in (1, 2):
        killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
        assert killed.returncode == -signal.SIGKILL and path.read_text() == "old"
        assert len(names(tmp_path)) == 2, number  # the second one has removed what the first one left
    with files.replacing(tmp_path / "a b"), files.replacing(path) as stream:
        stream.write(b"new")  # while another writes a file whose name begins alike
    assert path.read_text() == "new" and names(tmp_path) == ["a", "a b"]


@pytest.mark.skipif(os.name != "posix", reason="needs locks of files")
def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    with files.replacing(tmp_path / "a") as slow:
        slow.write(b"slow")
        with files.replacing(tmp_path / "a") as fast:
            fast.write(b"fast")
        files.remove_abandoned(files.listed(tmp_path, files.SUFFIX))
        assert (tmp_path / "a").read_text() == "fast"
    assert (tmp_path / "a").read_text() == "slow" and names(tmp_path) == ["a"]


def test_a_folder_that_is_gone_lists_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert files.listed(tmp_path / "none") == files.listed(tmp_path / "file") == []
