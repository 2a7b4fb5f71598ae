"""Two Ray nodes on this machine: the records and vectors of one process, whatever is killed, removed or stopped."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import encoders
import numpy as np
import pytest

from harness.encoders.shards import open_shard
from harness.engine.cluster import connected
from harness.engine.ray_engine import Needs, RayEngine
from harness.mining import nearest
from harness.mining.tiles import cuts, nearest_on

ray = pytest.importorskip("ray", reason="Ray is not installed")

pytestmark = [pytest.mark.alone, pytest.mark.slow]

LEADERBOARD = str(Path(sys.executable).parent / "leaderboard")
MARK = "HARNESS_TEST_MARK"  # in the environment of every process that a test starts

ENCODERS = (
    inspect.getsource(encoders)
    + """
import os
import re
import signal
import time
from pathlib import Path

from threadpoolctl import threadpool_info


class Batches(Letters):
    '''A vector depends on its batch and on the number of threads, as in every network (by more than rounding).'''
    name = fingerprint = "batches"
    chunk_size = 24
    seconds = 0.0

    def encode(self, sentences, *, lang=None):
        time.sleep(self.seconds)
        with open("encoded.txt", "a") as log:
            log.write(f"{os.getpid()} {len(sentences)}\\n")
        vectors = super().encode(sentences)
        moved = sum((row + 1) * len(text) for row, text in enumerate(sentences)) % 1009
        threads = max(library["num_threads"] for library in threadpool_info())
        weights = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
        return vectors @ weights * np.float32(1 + moved / 1e5 + threads / 1e3)


class Slow(Batches):
    name = fingerprint = "slow"
    seconds = 0.5


class Stuck(Batches):
    '''Is in a call of compiled code that holds Python's lock and does not look at signals.'''
    name = fingerprint = "stuck"

    def encode(self, sentences, *, lang=None):
        super().encode(sentences)
        re.match("(a+)+b", "a" * 60)


class Deadly(Batches):
    '''Kills its process the first time, or as often as there is nothing in the way.'''
    name = fingerprint = "deadly"

    def encode(self, sentences, *, lang=None):
        if not Path("died").exists():
            Path("died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode(sentences)


class Fatal(Batches):
    '''Ends its process at one sentence of the sample.'''
    name = fingerprint = "fatal"

    def encode(self, sentences, *, lang=None):
        if lang == "ar":
            with open("fatal.txt", "a") as log:
                log.write("x")
            os._exit(1)
        return super().encode(sentences)


class Wide(Letters):
    '''Vectors of a piece are too many bytes for Ray to send with the answer: whoever wants them fetches them.'''
    name, fingerprint, dim, chunk_size = "wide", "wide", 3200, 24

    def encode(self, sentences, *, lang=None):
        with open("encoded.txt", "a") as log:
            log.write(f"{os.getpid()} {len(sentences)}\\n")
        return super().encode(sentences)


class Large(Deadly):
    name = fingerprint = "large"
    chunk_size = 2048


def batches(): return Batches()
def large(): return Large()
def wide(): return Wide()
def slow(): return Slow()
def stuck(): return Stuck()
def deadly(): return Deadly()
def fatal(): return Fatal()
def unloadable(): raise OSError("no weights here")
"""
)
RUN = ["--suite", "sample", "--threads", "1", "--subset", "en-en@sample", "--subset", "en-ar@sample"]
RUN += ["--subset", "deu@sample"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, since that of a socket has at most 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="r-", dir="/tmp"))
    (path / "mine.py").write_text(ENCODERS)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[str]:
    """What the environment of all processes of the test has; none of them outlives it."""
    mark = uuid4().hex
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_TMPDIR", str(folder / "t"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (folder / "t").mkdir()
    yield mark
    for pid in marked(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """The processes, but for this one, that have the mark and are no zombies."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if int(file.parent.name) != os.getpid() and f"{MARK}={mark}".encode() in file.read_bytes():
                found.append(int(file.parent.name))
    return found


@pytest.fixture
def cluster(mark: str) -> Iterator[Any]:
    """Two nodes of one CPU each; the first has what the cluster needs to live."""
    from ray.cluster_utils import Cluster

    options = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    head = {**options, "_system_config": {"health_check_period_ms": 1000, "health_check_failure_threshold": 4}}
    started = Cluster(initialize_head=True, head_node_args=head)
    started.second = started.add_node(**options)
    started.wait_for_nodes()
    yield started
    started.shutdown()


def start(folder: Path, *arguments: str, to: str) -> subprocess.Popen[str]:
    command = [LEADERBOARD, "run", *RUN, "--results", f"{to}-results", "--cache-dir", f"{to}-cache", *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "HARNESS_RESULTS": ""},
    )


def finish(process: subprocess.Popen[str], timeout: float = 180) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def run(folder: Path, *arguments: str, to: str) -> subprocess.CompletedProcess[str]:
    return finish(start(folder, *arguments, to=to))


def on(cluster: Any) -> list[str]:
    return ["--engine", "ray", "--address", cluster.address]


_OF_A_RUN = ("wall_time_s", "created", "sentences_per_s", "git")  # git: who edits the code meanwhile


def records(folder: Path, to: str) -> list[dict[str, Any]]:
    found = []
    for file in sorted((folder / f"{to}-results" / "records").rglob("*.json")):
        for record in json.loads(file.read_text()):
            found.append({k: v for k, v in record.items() if k not in _OF_A_RUN})
    return found


def vectors(folder: Path, to: str) -> dict[tuple[str, bytes], bytes]:
    found = {}
    for file in (folder / f"{to}-cache").rglob("*.shard"):
        shard, keys = open_shard(file)
        for key, vector in zip(keys.tolist(), np.array(shard.read(shard.shape[1])), strict=True):
            assert found.setdefault((file.parent.name, key), vector.tobytes()) == vector.tobytes()
    return found


def assert_same(folder: Path, first: str, second: str) -> None:
    assert records(folder, first) == records(folder, second) and records(folder, first)
    assert vectors(folder, first) == vectors(folder, second) and vectors(folder, first)
    assert not [*(folder / f"{second}-cache").rglob("*.part")]


def assert_quiet(stderr: str) -> None:
    """Nothing of Ray's own in the user's stderr."""
    assert not re.search(r"Traceback|raylet|\x1b|\.cc:\d|ray\.exceptions|WARNING|INFO", stderr), stderr


def n_redone(stderr: str) -> int:
    found = re.findall(r", (\d+) pieces redone", stderr)
    return int(found[-1]) if found else 0


def wait_for(condition: Callable[[], object], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def encoded(folder: Path) -> list[str]:
    file = folder / "encoded.txt"
    return file.read_text().splitlines() if file.exists() else []


def test_a_worker_that_is_killed_costs_its_piece_alone(folder: Path, cluster: Any) -> None:
    there = run(folder, "--encoder", "python:mine:deadly", *on(cluster), to="there")
    assert there.returncode == 0, there.stderr
    assert_quiet(there.stderr)
    assert there.stderr.count("are encoded again: its worker died") == 1 and n_redone(there.stderr) == 1
    assert (folder / "died").exists()
    here = run(folder, "--encoder", "python:mine:deadly", to="here")
    assert here.returncode == 0, here.stderr
    assert_same(folder, "here", "there")


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["shared", "object-store"])
def test_two_nodes_give_what_one_process_gives(folder: Path, cluster: Any, how: str) -> None:
    names = ["--encoder", "python:mine:batches", "--encoder", "student", "--encoder", "muse"]
    there = run(folder, *names, *on(cluster), "--vectors", how, to="there")
    assert there.returncode == 0, there.stderr
    assert_quiet(there.stderr)
    assert n_redone(there.stderr) == 0
    assert len({line.split()[0] for line in encoded(folder)}) == 2  # both nodes took part
    assert run(folder, *names, to="here").returncode == 0
    assert_same(folder, "here", "there")
    again = run(folder, *names, *on(cluster), "--vectors", how, "--fresh", to="there")
    assert again.returncode == 0 and "workers:" not in again.stderr, again.stderr  # nothing was left to encode
    other = run(folder, *names, "--threads", "2", to="other")
    assert other.returncode == 0 and vectors(folder, "other") != vectors(folder, "here")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["disabled", "token"])
def test_a_token_is_shown_to_a_cluster_that_asks_for_it(
    folder: Path, mark: str, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", uuid4().hex)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    address = f"127.0.0.1:{free_port()}"
    engine = ["--engine", "ray", "--address", address, "--vectors", "object-store"]

    def seen() -> int:
        command = [LEADERBOARD, "engine", "check", "--address", address, "--cache-dir", str(folder)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder).stdout.count("seen")

    head = ["--head", f"--port={address.partition(':')[2]}", "--include-dashboard=false"]
    nodes = []
    for options in (head, [f"--address={address}"]):
        begin = [str(Path(sys.executable).parent / "ray"), "start", "--num-cpus", "1", "--block", *options]
        # A node of an administrator, who has said which mode.
        environment = {**os.environ, "RAY_AUTH_MODE": mode}
        nodes.append(subprocess.Popen(begin, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_for(lambda: seen() == len(nodes))
    there = run(folder, "--encoder", "python:mine:wide", *engine, to="there")
    assert there.returncode == 0, there.stderr
    assert n_redone(there.stderr) == 0
    assert len({line.split()[0] for line in encoded(folder)}) == 2  # both nodes took part
    monkeypatch.setenv("RAY_AUTH_TOKEN", uuid4().hex)  # of another cluster
    other = run(folder, "--encoder", "python:mine:batches", *engine, to="other")
    assert other.returncode == (2 if mode == "token" else 0), other.stderr
    assert ("asks for its token" in other.stderr) == (mode == "token")
    for node in nodes[::-1]:
        node.terminate()
        node.wait(30)


def disturbed(folder: Path, cluster: Any, disturb: Callable[[], None], least: int = 6) -> tuple[float, str]:
    """Disturbs a run after some pieces, checks that its results are as ever, and gives its seconds and its stderr."""
    begin = time.monotonic()
    process = start(folder, "--encoder", "python:mine:slow", *on(cluster), to="there")
    wait_for(lambda: len(encoded(folder)) >= least and len({line.split()[0] for line in encoded(folder)}) == 2)
    disturb()
    there = finish(process)
    seconds = time.monotonic() - begin
    assert there.returncode == 0, there.stderr
    assert_quiet(there.stderr)
    assert run(folder, "--encoder", "python:mine:slow", to="here").returncode == 0
    assert_same(folder, "here", "there")
    print(f"{seconds:.1f} s, {n_redone(there.stderr)} pieces redone")
    return seconds, there.stderr


@pytest.mark.nightly
def test_a_worker_that_is_killed_from_outside(folder: Path, cluster: Any) -> None:
    _, said = disturbed(folder, cluster, lambda: os.kill(int(encoded(folder)[-1].split()[0]), signal.SIGKILL))
    assert n_redone(said) <= 2


@pytest.mark.nightly
def test_a_node_that_is_lost(folder: Path, cluster: Any) -> None:
    _, said = disturbed(folder, cluster, lambda: cluster.remove_node(cluster.second, allow_graceful=False))
    assert 1 <= n_redone(said) <= 4 and len(re.findall(r"node .* is lost; its pieces", said)) == 1, said


@pytest.mark.nightly
def test_a_node_that_is_stopped(folder: Path, cluster: Any) -> None:
    def processes() -> list[int]:
        [raylet] = [each.process.pid for each in cluster.second.all_processes["raylet"]]
        found = [raylet]
        for pid in found:
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                found += map(int, task.read_text().split())
        return found

    stopped: list[int] = []

    def stop() -> None:
        stopped.extend(processes())
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)

    try:
        _, said = disturbed(folder, cluster, stop)
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    assert 1 <= n_redone(said) <= 4, said


@pytest.mark.nightly
def test_a_driver_that_is_killed_and_started_again(folder: Path, cluster: Any) -> None:
    first = start(folder, "--encoder", "python:mine:slow", *on(cluster), to="there")
    wait_for(lambda: len(encoded(folder)) >= 6)
    first.kill()
    first.communicate()
    time.sleep(3)
    before = len(encoded(folder))
    again = run(folder, "--encoder", "python:mine:slow", *on(cluster), to="there")
    assert again.returncode == 0, again.stderr
    total = before + len(encoded(folder)) - before
    assert run(folder, "--encoder", "python:mine:slow", to="here").returncode == 0
    alone = len(encoded(folder)) - total
    print(f"{before} pieces before, {total - before} after, {alone} by one process")
    assert total <= alone + 4  # what was under way is done again
    assert_same(folder, "here", "there")


@pytest.mark.nightly
def test_a_piece_that_kills_every_worker_is_a_hole(folder: Path, cluster: Any) -> None:
    names = ["--encoder", "python:mine:fatal", "--encoder", "python:mine:unloadable", "--encoder", "chargrams"]
    there = run(folder, *names, *on(cluster), to="there")
    assert there.returncode == 3, there.stderr
    assert_quiet(there.stderr)
    assert len((folder / "fatal.txt").read_text()) == 3 * 3  # three pieces are Arabic
    assert re.search(r"sts17 en-ar@sample: FAILED for fatal: LostError: given up after 3 attempts", there.stderr)
    assert there.stderr.count("no weights here") == 1
    found = {(record["encoder"], record["subset"]) for record in records(folder, "there")}
    assert ("fatal", "deu@sample") in found and ("fatal", "en-en@sample") in found
    assert ("fatal", "en-ar@sample") not in found and ("chargrams", "en-ar@sample") in found


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["slow", "stuck"])
@pytest.mark.parametrize("where", ["cluster", "machine"])
def test_after_ctrl_c_nothing_is_left(
    folder: Path, mark: str, where: str, name: str, request: pytest.FixtureRequest
) -> None:
    engine = on(request.getfixturevalue("cluster")) if where == "cluster" else ["--engine", "ray"]
    before = set(marked(mark))
    process = start(folder, "--encoder", f"python:mine:{name}", *engine, to="there")
    wait_for(lambda: len(encoded(folder)) >= 2)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    seconds = time.monotonic() - begin
    assert seconds < 5 and process.returncode == 130, (seconds, process.returncode, stderr)
    assert "run the same command again to go on" in stderr
    assert_quiet(stderr)
    n_encoded = len(encoded(folder))

    def left() -> list[str]:
        names = []
        for pid in set(marked(mark)) - before:
            with suppress(OSError):
                names.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:60])
        return [name for name in names if where == "machine" or "SPREAD" in name or "attempt" in name]

    wait_for(lambda: not left(), 15)
    print(f"prompt after {seconds:.1f} s, nothing left after {time.monotonic() - begin:.1f} s")
    time.sleep(2)
    assert len(encoded(folder)) == n_encoded


@pytest.mark.nightly
def test_a_cluster_is_looked_at(folder: Path, cluster: Any) -> None:
    command = [LEADERBOARD, "engine", "check", "--address", cluster.address, "--cache-dir", str(folder / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert_quiet(done.stderr)
    assert done.stdout.count("seen") == 2
    nobody = subprocess.run(
        [LEADERBOARD, "engine", "check", "--address", "127.0.0.1:9"], capture_output=True, text=True, timeout=60
    )
    assert nobody.returncode == 2 and nobody.stderr.startswith("error: no Ray cluster at 127.0.0.1:9"), nobody.stderr


@pytest.mark.nightly
def test_a_node_that_does_not_see_the_cache_folder_is_named(folder: Path, cluster: Any) -> None:
    cache = folder / "there-cache"
    cache.mkdir()
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("a folder cannot be hidden from a process here: no unshare, or not allowed")
    start_node = f"exec {Path(sys.executable).parent}/ray start --address {cluster.address} --num-cpus 1 --block"
    hidden = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none {cache} && {start_node}"]
    third = subprocess.Popen(hidden, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        command = [LEADERBOARD, "engine", "check", "--address", cluster.address, "--cache-dir", str(cache)]

        def checked() -> subprocess.CompletedProcess[str]:
            return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)

        wait_for(lambda: checked().stdout.count("not seen") == 1)
        done = checked()
        assert done.returncode == 2 and len(re.findall(r"^.*: cache folder not there$", done.stderr, re.M)) == 1
        there = run(folder, "--encoder", "python:mine:batches", *on(cluster), to="there")
        assert there.returncode == 2 and not encoded(folder), there.stderr
        errors = [line for line in there.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1 and errors[0].count("not there") == 1 and "--vectors object-store" in errors[0]
        sent = run(folder, "--encoder", "python:mine:batches", *on(cluster), "--vectors", "object-store", to="there")
        assert sent.returncode == 0, sent.stderr
        assert len({line.split()[0] for line in encoded(folder)}) == 3
    finally:
        third.terminate()
        third.wait(30)


@pytest.mark.nightly
def test_tiles_are_searched_by_workers_of_which_one_is_killed(folder: Path, cluster: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((n, 256), dtype=np.float32) for n in (9000, 8000))
    y[:3000] = x[:3000] + np.float32(0.5) * y[:3000]
    x[-50:], y[-50:] = x[:50], y[:50]  # ties, in other tiles
    killed: list[int] = []

    def kill() -> None:
        while not killed:
            time.sleep(0.2)
            if len(list((folder / "work").glob("tile-*.npz"))) >= 3:
                for file in Path("/proc").glob("[0-9]*/cmdline"):
                    with suppress(OSError):
                        if file.read_text().startswith("ray::attempt") and not killed:
                            os.kill(int(file.parent.name), signal.SIGKILL)
                            killed.append(int(file.parent.name))

    def search(engine: Any, **options: Any) -> Any:
        return nearest_on(engine, x, y, backend="numpy", cut=(cuts(9000, 1500), cuts(8000, 1700)), **options)

    expected = nearest(x, y, backend="numpy")
    with connected(cluster.address) as package:
        engine = RayEngine(package, Needs(1), print)
        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        found = [search(engine, folder=folder / "work")]
        thread.join()
        found.append(search(engine))  # all sent to and fro
        assert engine.most_in_flight == 4
    assert killed
    for pair in found:
        for one, other in zip(pair, expected, strict=True):
            assert np.array_equal(one.rows, other.rows) and one.similarity.tobytes() == other.similarity.tobytes()


@pytest.mark.nightly
def test_own_text_is_mined_by_workers_of_which_one_is_killed(folder: Path, cluster: Any) -> None:
    rng = np.random.default_rng(0)
    for ending in ("de", "en"):
        letters = rng.integers(ord("a"), ord("z"), size=(18_000, 12), dtype=np.uint8)  # four tiles
        (folder / f"a.{ending}").write_bytes(b"".join(row.tobytes() + b"\n" for row in letters))

    def mine(to: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [LEADERBOARD, "mine", "a.de", "a.en", "--encoder", "python:mine:large", "--out", f"{to}.tsv"]
        command += ["--work-dir", to, "--threads", "1", "--yes", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)

    there = mine("there", *on(cluster))
    assert there.returncode == 0, there.stderr
    assert_quiet(there.stderr)
    assert there.stderr.count("2,048 sentences are encoded again: its worker died") == 1
    assert len({line.split()[0] for line in encoded(folder)}) >= 2  # both nodes took part
    here = mine("here")
    assert here.returncode == 0, here.stderr
    assert (folder / "there.tsv").read_bytes() == (folder / "here.tsv").read_bytes()
    for name in ("x.float32", "y.float32", "exact-k4.x", "exact-k4.y"):
        assert (folder / "there" / name).read_bytes() == (folder / "here" / name).read_bytes(), name
