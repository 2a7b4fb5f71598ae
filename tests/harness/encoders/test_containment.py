"""What an encoder prints and where it goes, seen from inside and from outside of the process."""

import errno
import io
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.encoders.containment import contained


@pytest.mark.skipif(os.name != "posix", reason="needs file descriptors as POSIX has them")
@pytest.mark.parametrize("streams", ["open", "no stdout", "no stderr"])
def test_what_an_encoder_prints_and_where_it_goes_changes_nothing_of_ours(tmp_path, streams):
    """Seen from outside: Python, C, a subprocess, and one who holds the stream; with closed streams too."""
    program = """
import ctypes, os, subprocess, sys

held = sys.stdout
file = open("file", "wb")  # takes the place of a stream that is closed
from harness.encoders.containment import contained

def noise(word):
    print("print", word)
    os.write(1, f"write {word}\\n".encode())
    ctypes.CDLL(None).printf(f"printf {word}\\n".encode())
    if held is not None:
        held.write(f"held {word}\\n")
    subprocess.run(["echo", "echo", word], check=True)
    os.chdir("/")

print("ours")
if sys.argv[1] == "no stdout":
    with contained():
        os.chdir("/")
        file.write(b"whole")
        file.flush()
else:
    with contained():
        noise("theirs")
        with contained():
            noise("nested")
    file.write(b"whole")
print("ours again")
file.close()
assert open("file").read() == "whole"
"""
    command = [sys.executable, "-c", program, streams]
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    closing = {"open": "", "no stdout": " >&-", "no stderr": " 2>&-"}[streams]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@"{closing}', "sh", *command], cwd=tmp_path, env=buffered, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("" if streams == "no stdout" else "ours\nours again\n")
    kinds = ("print", "write", "printf", "held", "echo")
    said = sorted(f"{kind} {word}" for kind in kinds for word in ("theirs", "nested"))
    assert sorted(done.stderr.splitlines()) == (said if streams == "open" else [])


def test_the_current_folder_may_have_been_deleted(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    before = Path().stat()
    gone.rmdir()
    with contained():
        os.chdir(tmp_path)
    assert os.path.samestat(before, Path().stat())


def test_a_stdout_that_cannot_be_written_is_no_concern_of_the_encoder(monkeypatch):
    class Gone(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    closed = io.StringIO()
    closed.close()
    for stream in (Gone(), closed, None):
        monkeypatch.setattr(sys, "stdout", stream)
        with contained():
            print("theirs")
        assert sys.stdout is stream


def test_what_an_encoder_raises_comes_through(capfd):
    with pytest.raises(KeyError), contained():
        os.write(1, b"theirs")
        raise KeyError
    os.write(1, b"ours")
    assert capfd.readouterr() == ("ours", "theirs")


def descriptors():
    return {number for number in range(64) if is_open(number)}


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_blocks_that_overlap_end_in_any_order(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    ours, opened = sys.stdout, descriptors()
    first, second = contained(), contained()
    first.__enter__()
    os.chdir("/")
    second.__enter__()
    first.__exit__(None, None, None)
    print("theirs still")
    os.write(1, b"descriptor too\n")
    second.__exit__(None, None, None)
    assert sys.stdout is ours and Path.cwd() == tmp_path and descriptors() == opened
    print("ours", flush=True)
    os.write(1, b"descriptor again\n")
    assert capfd.readouterr() == ("ours\ndescriptor again\n", "theirs still\ndescriptor too\n")


def test_blocks_of_many_threads(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    ours, opened = sys.stdout, descriptors()
    together = threading.Barrier(4)

    def encodes():
        together.wait(10)
        for _ in range(200):
            with contained():
                os.chdir("/")
                os.write(1, b"x")

    threads = [threading.Thread(target=encodes) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.stdout is ours and Path.cwd() == tmp_path and descriptors() == opened
    os.write(1, b"ours")
    assert capfd.readouterr() == ("ours", "x" * 800)


@pytest.fixture
def no_folder_opens(monkeypatch):
    """As on Windows."""
    opens = os.open

    def refuses(path, *arguments, **options):
        if path == ".":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return opens(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuses)


@pytest.mark.usefixtures("no_folder_opens")
def test_a_folder_that_cannot_be_opened_is_returned_to_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with contained():
        os.chdir("/")
    assert Path.cwd() == tmp_path
    with pytest.raises(KeyError) as caught, contained():
        raise KeyError
    assert caught.value.__context__ is None  # nothing of ours in the encoder's traceback


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a current folder cannot be deleted")
@pytest.mark.usefixtures("no_folder_opens")
def test_a_folder_without_descriptor_and_name_is_no_concern_of_the_encoder(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with contained():
        pass


def test_where_there_is_no_way_back_all_else_is_restored(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    ours, opened = sys.stdout, descriptors()

    def refuses(folder):
        raise PermissionError(errno.EACCES, "Permission denied")

    with ExitStack() as stack:
        stack.enter_context(contained())
        monkeypatch.setattr(os, "chdir", refuses)
        monkeypatch.setattr(os, "fchdir", refuses)
        with pytest.raises(PermissionError):
            stack.close()
    monkeypatch.undo()
    assert sys.stdout is ours and descriptors() == opened
    with contained():
        os.write(1, b"theirs")
    os.write(1, b"ours")
    assert capfd.readouterr() == ("ours", "theirs")
