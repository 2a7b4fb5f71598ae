"""Files that are whole or not there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness.core import files
from harness.core.errors import InputError

KILLED = """
import os, signal, sys
from pathlib import Path
from harness.core import files

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


CLAIMS = """
import os, signal, sys
from pathlib import Path
from harness.core import files

with files.temporary_folder() as folder:
    print(folder, flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs locks of files")
def test_temporary_folders_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And neither those that are in use nor anybody else's."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "leaderboard-of-somebody").mkdir()
    (tmp_path / "leaderboard-link").symlink_to(tmp_path / "leaderboard-of-somebody")
    with subprocess.Popen(
        [sys.executable, "-c", CLAIMS], env={**os.environ, "TMPDIR": str(tmp_path)}, stdin=-1, stdout=-1, text=True
    ) as process:
        assert process.stdin and process.stdout
        other = Path(process.stdout.readline().strip())
        (other / "vectors").mkdir()
        with files.temporary_folder() as first, files.temporary_folder() as second:
            assert other.is_dir() and len({first, second, other}) == 3
            assert {first, second} < set(tmp_path.iterdir())
        process.stdin.close()
        assert process.wait() == -signal.SIGKILL and other.is_dir()
    with files.temporary_folder() as third:
        assert names(tmp_path) == sorted([third.name, "leaderboard-of-somebody", "leaderboard-link"])
    assert names(tmp_path) == ["leaderboard-link", "leaderboard-of-somebody"]


@pytest.mark.skipif(os.name != "posix", reason="needs locks of files")
def test_a_folder_goes_once_nobody_claims_it(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    one, two = files.Claim(folder), files.Claim(folder)
    (folder / "file").write_text("")
    one.release()
    assert not files.remove_unclaimed(folder) and two.is_valid and names(folder) == [".in-use", "file"]
    del two  # as when the process ends
    assert names(folder) == ["file"]
    assert files.remove_unclaimed(folder) and not folder.exists()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder.symlink_to(elsewhere)
    assert not files.remove_unclaimed(folder) and folder.exists() and names(elsewhere) == []
    folder.unlink()
    assert files.remove_unclaimed(folder)  # where there is none any more


@pytest.mark.skipif(os.name != "posix", reason="needs locks of files")
def test_a_folder_that_is_removed_while_it_is_claimed_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lock, n_locked = tmp_path / "a", files.fcntl.flock, []

    def late(descriptor: int, operation: int) -> None:
        n_locked.append(descriptor)
        if len(n_locked) == 1:
            shutil.rmtree(folder)
        lock(descriptor, operation)

    monkeypatch.setattr(files.fcntl, "flock", late)
    claim = files.Claim(folder)
    assert claim.is_valid and len(n_locked) == 2 and not files.remove_unclaimed(folder)
    shutil.rmtree(folder)
    assert not claim.is_valid


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/a: cannot be written \(.*\); name another folder or move away"):
        files.write_atomically(tmp_path / "file" / "a", b"")
    with pytest.raises(ZeroDivisionError), files.writing(tmp_path / "a"):
        raise ZeroDivisionError


def test_a_new_folder_is_there_when_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / ".a.part").mkdir()
    (tmp_path / ".a.part" / "left by a kill").write_text("")
    with pytest.raises(ZeroDivisionError), files.new_folder(tmp_path / "a") as folder:
        folder.mkdir()
        raise ZeroDivisionError
    assert names(tmp_path) == []
    with files.new_folder(tmp_path / "a") as folder:
        folder.mkdir()
        (folder / "b").write_text("")
    assert names(tmp_path) == ["a"] and names(tmp_path / "a") == ["b"]
    with pytest.raises(InputError, match="a: cannot be written"), files.new_folder(tmp_path / "a") as folder:
        folder.mkdir()
    assert names(tmp_path) == ["a"] and names(tmp_path / "a") == ["b"]


@pytest.mark.parametrize("member", ["/a", "../a", "a/../../b", "C:/a", "..\\a", "\\a", ""])
def test_members_of_archives_that_lead_out(member: str) -> None:
    assert files.leads_out(member) and not files.leads_out(f"x{member.replace('..', 'y').replace(':', '')}")
