"""What the engine of a Ray cluster does with what Ray tells, by a Ray that is made up; the real one: `test_ray.py`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import one_line_error
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import InputError, LanguageError, MissingExtraError, VectorError
from harness.engine import cluster, ray_engine
from harness.engine.cluster import connected
from harness.engine.engine import ClusterError, Done, Failed, LoadError, Lost
from harness.engine.local import LocalEngine
from harness.engine.ray_engine import Needs, RayEngine, in_use, needs_of
from harness.engine.worker import Setting, Told


class RayError(Exception): ...


class RayTaskError(RayError): ...


class WorkerCrashedError(RayError): ...


class NodeDiedError(RayError): ...


class OutOfMemoryError(RayError): ...


class RuntimeEnvSetupError(RayError): ...


class TaskUnschedulableError(RayError): ...


class ObjectLostError(RayError): ...


class OwnerDied(RayTaskError, ObjectLostError):
    """An argument that did not reach its worker, as Ray tells it."""


class MadeUp:
    """A Ray that does a task when it is waited for, the last one first.

    fates: by piece, what its attempts meet, in turn: an exception, or None; and None after them.
    """

    util = SimpleNamespace(
        scheduling_strategies=SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: (node, soft))
    )
    exceptions = SimpleNamespace(
        **{e.__name__: e for e in RayError.__subclasses__()} | {"RayError": RayError},
    )

    def __init__(self, fates: dict[Any, list[Any]] | None = None, nodes: tuple[float, ...] = (1, 1)):
        self.cpus = list(nodes)
        self._fates = {piece: list(fate) for piece, fate in (fates or {}).items()}
        self.begun: Counter[Any] = Counter()
        self.by_node: Counter[str] = Counter()
        self.silent: set[str] = set()
        self.flying: list[Any] = []
        self.most, self.busiest, self.cancelled = 0, 0, []

    def nodes(self) -> list[dict[str, Any]]:
        names = {"Alive": True, "NodeManagerHostname": "host", "NodeManagerAddress": "10.0.0.1"}
        return [
            {**names, "NodeID": f"{i:06}", "Resources": {"CPU": cpus}} for i, cpus in enumerate(self.cpus) if cpus >= 0
        ]

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(sum(self.cpus))}

    available_resources = cluster_resources

    def remote(self, **options: Any) -> Any:
        assert options["max_retries"] == options["max_calls"] == 0

        def send(task: Any) -> Any:
            def begin(node: str, function: Any, piece: Any, setting: Setting) -> Any:
                ref = (node, function, piece)
                self.begun[piece] += 1
                self.by_node[node] += 1
                self.flying.append(ref)
                self.most = max(self.most, len(self.flying))
                self.busiest = max(self.busiest, Counter(node for node, *_ in self.flying).most_common(1)[0][1])
                return ref

            def options(scheduling_strategy: tuple[str, bool]) -> Any:
                assert scheduling_strategy[1] is False
                return SimpleNamespace(remote=partial(begin, scheduling_strategy[0]))

            return SimpleNamespace(options=options)

        return send

    def wait(self, refs: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        assert set(refs) == set(self.flying)
        for ref in reversed(self.flying):
            if ref[0] not in self.silent:
                self.flying.remove(ref)
                return [ref], refs
        return [], refs

    def get(self, ref: Any) -> Any:
        _, function, piece = ref
        if (fate := self._fates.get(piece)) and (met := fate.pop(0)) is not None:
            raise met
        try:
            return function(piece), None
        except Exception as error:
            return None, Told.of(error)

    def cancel(self, ref: Any, force: bool) -> None:
        self.flying.remove(ref)
        self.cancelled.append(ref[2])


def engine(ray: MadeUp, said: list[str] | None = None, cpus: int = 1) -> RayEngine:
    return RayEngine(ray, Needs(cpus), (said if said is not None else []).append)


def halved(number: int) -> int:
    if number % 2:
        raise VectorError(f"{number} is odd")
    return number // 2


CRASH = st.sampled_from([WorkerCrashedError(""), NodeDiedError(""), OutOfMemoryError(""), None])


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 30), st.lists(CRASH, max_size=12)), st.integers(1, 4), st.integers(0, 31))
def test_every_piece_has_one_outcome(fates: dict[int, list[Any]], places: int, n: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_engine, "_SHUN", -1.0)
        _check_outcomes(fates, places, n)


def _check_outcomes(fates: dict[int, list[Any]], places: int, n: int) -> None:
    ray = MadeUp(fates, (places,))
    redone: list[int] = []
    outcomes = list(engine(ray).map(halved, iter(range(n)), lambda piece, why: redone.append(piece)))
    assert sorted(outcome.piece for outcome in outcomes) == list(range(n))
    assert ray.most <= 2 * places
    for outcome in outcomes:
        met = fates.get(outcome.piece, [])
        before = met[: met.index(None)] if None in met else met
        deaths = [isinstance(error, NodeDiedError) for error in before]
        killed = next((i + 1 for i in range(len(deaths)) if deaths[: i + 1].count(False) == 3 or i + 1 == 10), None)
        assert outcome.attempts == (killed or len(before) + 1) == ray.begun[outcome.piece]
        assert redone.count(outcome.piece) == outcome.attempts - 1
        if killed:
            assert isinstance(outcome, Lost) and str(outcome.error).startswith(f"given up after {killed} attempts: ")
        elif outcome.piece % 2:
            assert isinstance(outcome, Failed) and isinstance(outcome.error, VectorError)
            assert str(outcome.error) == f"{outcome.piece} is odd"
        else:
            assert outcome == Done(outcome.piece, outcome.piece // 2, outcome.attempts)


def test_pieces_are_taken_when_there_is_room() -> None:
    ray, taken = MadeUp(nodes=(3, 2)), []
    outcomes = engine(ray, cpus=2).map(halved, (taken.append(i) or i for i in range(10_000)))
    for n, _ in enumerate(outcomes, 1):
        assert len(taken) <= n + 4 - 1  # two places
    assert len(taken) == 10_000 and ray.most == 4 and ray.busiest == 2


def test_what_is_left_when_it_is_closed_is_given_up() -> None:
    ray = MadeUp(nodes=(2,))
    outcomes = engine(ray).map(halved, range(100))
    next(outcomes)
    outcomes.close()
    assert len(ray.cancelled) == 3 and sum(ray.begun.values()) == 4


def test_nodes_that_come_and_go_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_LOOK", -1.0)
    monkeypatch.setattr(ray_engine, "_PATIENCE", -1.0)
    ray, said = MadeUp(nodes=(1, 1)), []
    running = engine(ray, said)
    outcomes = running.map(halved, range(100))
    next(outcomes)
    ray.cpus = [1, -1, 4]
    next(outcomes)
    assert sorted(said) == [
        "node host (10.0.0.1, 000001) is lost; its pieces are done again by others",
        "node host (10.0.0.1, 000002) has joined",
    ]
    assert running.places == 5
    ray.cpus = [0]
    with pytest.raises(ClusterError, match=r"no node has room for a worker .* 000000\): 0 CPUs, 0 GPUs"):
        list(outcomes)


def test_pieces_of_a_silent_node_are_done_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_LOOK", -1.0)
    ray, redone = MadeUp(nodes=(1, 1)), []
    outcomes = engine(ray).map(halved, range(0, 100, 2), lambda piece, why: redone.append((piece, why)))
    found = [next(outcomes)]
    ray.silent = {"000001"}
    found += [next(outcomes) for _ in range(20)]
    assert not redone
    ray.cpus = [1, -1]
    found += outcomes
    assert [why for _, why in redone] == ["its node was lost"] * 2
    assert sorted(outcome.piece for outcome in found) == list(range(0, 100, 2))
    assert sorted(ray.cancelled) == sorted(piece for piece, _ in redone)


def test_a_node_that_loses_pieces_gets_no_others() -> None:
    died = {piece: [NodeDiedError("")] for piece in (1, 3)}  # those that the second node gets first
    ray = MadeUp(died, nodes=(1, 1))
    outcomes = list(engine(ray).map(halved, range(0, 40)))
    assert len(outcomes) == 40 and all(ray.begun[piece] == 1 + (piece in died) for piece in range(40))
    assert ray.by_node["000001"] == 2 and ray.by_node["000000"] == 40


def test_nodes_may_be_away_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_LOOK", -1.0)
    ray = MadeUp(nodes=(1,))
    running = engine(ray)
    ray.cpus = [-1]
    looks = iter(range(5))
    real = ray.nodes

    def nodes() -> list[dict[str, Any]]:
        if next(looks, None) is None:
            ray.cpus = [-1, 2]
        return real()

    ray.nodes = nodes
    running._look()
    assert running.places == 0 and sorted(o.piece for o in running.map(halved, range(9))) == list(range(9))


def test_a_worker_needs_room() -> None:
    with pytest.raises(ClusterError, match="8 CPUs and 0 GPUs each"):
        engine(MadeUp(nodes=(4, 4)), cpus=8)
    assert Needs(2, 0.5).places({"CPU": 16, "GPU": 2}) == 4 and Needs(2, 1).places({"CPU": 2, "GPU": 8}) == 1
    assert Needs(1, 0.1).places({"CPU": 99, "GPU": 1}) == 10 and Needs(1, 1).places({"CPU": 9}) == 0


def test_a_worker_that_cannot_begin_is_no_crash() -> None:
    ray = MadeUp({1: [RayTaskError("trace\nModuleNotFoundError: No module named 'harness'")]})
    [outcome] = engine(ray).map(halved, [1])
    assert isinstance(outcome, Failed) and isinstance(outcome.error, ClusterError)
    assert "No module named 'harness'" in str(outcome.error) and "engine check" in str(outcome.error)


@pytest.mark.parametrize("error", [ObjectLostError, OwnerDied])
def test_data_that_are_lost_are_no_death_of_the_piece(monkeypatch: pytest.MonkeyPatch, error: type[RayError]) -> None:
    monkeypatch.setattr(ray_engine, "_SHUN", -1.0)
    ray = MadeUp({0: 4 * [error("")]})
    assert list(engine(ray).map(halved, [0])) == [Done(0, 0, 5)]
    ray = MadeUp({0: [error("")]})
    monkeypatch.setattr(ray_engine, "_SHUN", 90.0)
    assert list(engine(ray).map(halved, [0])) == [Done(0, 0, 2)]
    assert set(ray.by_node.values()) == {1}  # the other node


def test_a_worker_that_dies_with_its_node_is_no_death_of_the_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_LOOK", -1.0)
    ray = MadeUp({0: 4 * [WorkerCrashedError("")]}, nodes=(1,))
    real = ray.get

    def get(ref: Any) -> Any:  # Ray notices the node's end after the worker's
        ray.cpus = [-1] * len(ray.cpus) + [1]
        return real(ref)

    ray.get = get
    assert list(engine(ray).map(halved, [0])) == [Done(0, 0, 5)]


class Unloadable:
    """Encoding that fails on some nodes of a made-up Ray, for it knows on which one it is."""

    def __init__(self, ray: MadeUp, nodes: set[str]):
        self.failed: Counter[str] = Counter()
        real = ray.get

        def get(ref: Any) -> Any:
            if ref[0] in nodes:
                self.failed[ref[0]] += 1
                return None, Told.of(LoadError(f"cannot be loaded on node {ref[0]}"))
            return real(ref)

        ray.get = get


def test_a_node_that_cannot_load_is_avoided() -> None:
    ray, redone = MadeUp(nodes=(1, 1)), []
    bad = Unloadable(ray, {"000001"})
    outcomes = list(engine(ray).map(halved, range(0, 80, 2), lambda piece, why: redone.append(why)))
    assert all(isinstance(outcome, Done) for outcome in outcomes) and len(outcomes) == 40
    assert bad.failed["000001"] <= 2 and set(redone) == {"cannot be loaded on node 000001"}


@pytest.mark.parametrize("n", [1, 2, 4])
def test_what_cannot_be_loaded_anywhere_fails(n: int) -> None:
    ray = MadeUp(nodes=(1,) * n)
    bad = Unloadable(ray, {f"{node:06}" for node in range(n)})
    outcomes = list(engine(ray).map(halved, range(0, 20, 2)))
    assert [type(outcome.error) for outcome in outcomes] == 10 * [LoadError]
    assert sum(bad.failed.values()) == 30


def box(cpus: float, gpus: float) -> dict[str, Any]:
    return {"Alive": True, "Resources": {"CPU": cpus, "GPU": gpus} if gpus else {"CPU": cpus}}


def test_what_a_worker_gets_by_default() -> None:
    assert needs_of([box(64, 8)], None, None, 64) == Needs(8, 1.0)  # one worker for each GPU
    assert needs_of([box(64, 8)], None, None, 4) == Needs(4, 1.0)
    assert needs_of([box(64, 8)], None, 0.5, 64) == Needs(4, 0.5)
    assert needs_of([box(64, 8)], None, 0.0, 8) == Needs(8, 0.0)
    assert needs_of([box(16, 0), box(32, 4)], None, None, 16) == Needs(8, 1.0)
    assert needs_of([box(16, 0)], None, None, 4) == Needs(4, 0.0)
    assert needs_of([box(16, 8)], 5, None, 4) == Needs(5, 1.0)
    assert Needs(5, 1.0).idle({"CPU": 16, "GPU": 8}).startswith("has CPUs for 3 of the 8 workers")
    assert Needs(5, 1.0).idle({"CPU": 16}) == Needs(32).idle({"CPU": 16}) == "has no room for a worker"
    assert not Needs(2, 1.0).idle({"CPU": 16, "GPU": 8}) and not Needs(2).idle({"CPU": 16}) and not Needs(2).idle({})


def test_no_worker_has_parts_of_two_gpus(leaderboard: Any) -> None:
    assert Needs(1, 0.3).places({"CPU": 99, "GPU": 8}) == 24 and Needs(1, 2).places({"CPU": 99, "GPU": 5}) == 2
    run = ("run", "--suite", "sample", "--encoder", "chargrams", "--engine", "ray", "--gpus-per-worker")
    for number in ("1.5", "inf", "1e-9"):
        assert "Ray gives a part of one GPU (0.5, say), or whole ones" in one_line_error(leaderboard(*run, number))


def test_workers_without_a_gpu_see_none(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: list[Setting] = []
    for gpus in (0.0, 1.0):
        ray = MadeUp(nodes=(2,))
        real = ray.nodes
        ray.nodes = lambda real=real: [{**node, "Resources": {"CPU": 2, "GPU": 2}} for node in real()]
        send = ray.remote

        def remote(send: Any = send, **options: Any) -> Any:
            def sent(task: Any) -> Any:
                there = send(**options)(task)

                def noted(**given: Any) -> Any:
                    begin = there.options(**given).remote
                    return SimpleNamespace(
                        remote=lambda f, p, setting: settings.append(setting) or begin(f, p, setting)
                    )

                return SimpleNamespace(options=noted)

            return sent

        ray.remote = remote
        list(RayEngine(ray, Needs(1, gpus), print).map(halved, [2]))
    assert [("CUDA_VISIBLE_DEVICES", "") in setting.variables for setting in settings] == [True, False]


def test_no_secret_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "HARNESS_API_KEY", "HARNESS_SECRET", "HF_SECRET"):
        monkeypatch.setenv(name, "hush")
    monkeypatch.setenv("HF_ENDPOINT", "https://me:hush@mirror.example")
    monkeypatch.setenv("HF_HOME", "/shared/hf")
    monkeypatch.setenv("HARNESS_CACHE", "/shared/@us")
    sent = Setting.here()
    assert "hush" not in repr(sent)
    assert ("HF_HOME", "/shared/hf") in sent.variables and ("HARNESS_CACHE", "/shared/@us") in sent.variables


def test_only_a_cluster_of_our_own_is_ended_by_force(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.cli import ENDINGS
    from harness.cli import engine as command
    from harness.engine import check

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(cluster, "connected", lambda *_: nullcontext(MadeUp()))
    monkeypatch.setattr(check, "nodes_of", lambda _: [])
    before = list(ENDINGS)
    for address, ends in ((None, [cluster.end_descendants]), ("auto", [])):
        with command.opened(command.EngineChoice.ray, address, 1, 0.0, None):
            assert before + ends == ENDINGS
        assert before == ENDINGS


def test_a_head_that_does_not_answer_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_LOOK", -1.0)
    monkeypatch.setattr(ray_engine, "_SILENCE", 0.2)
    ray = MadeUp(nodes=(2,))
    outcomes = engine(ray).map(halved, range(100))
    next(outcomes)
    ray.nodes = lambda: time.sleep(2)
    with pytest.raises(ClusterError, match="head of the Ray cluster does not answer for 0 s"):
        next(outcomes)
    assert not ray.cancelled  # which would wait for the head


def test_what_others_use_is_said() -> None:
    def used(free: dict[str, float]) -> str:
        total = {"CPU": 8.0, "GPU": 2.0, "memory": 9.0}
        return in_use(SimpleNamespace(cluster_resources=lambda: total, available_resources=lambda: free))

    assert used({"CPU": 8.0, "GPU": 2.0}) == "" and used({"CPU": 7.5, "GPU": 2.0}) == "0.5 of 8 CPUs"
    assert used({"GPU": 1.0}) == "8 of 8 CPUs and 1 of 2 GPUs"


def test_sigterm_unwinds(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as exited, cluster._ended_by_sigterm():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except SystemExit:
            raise SystemExit(1) from None  # as Ray does
    assert exited.value.code == 143 and signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("asks", "has", "given", "expected"),
    [
        (False, False, None, ["disabled"]),
        (False, True, None, ["disabled"]),  # else its nodes, which show none, would be refused
        (True, True, None, ["disabled", "token"]),
        (True, False, None, ["disabled", None]),
        (True, True, "disabled", ["disabled", None]),
        (False, True, "token", ["token"]),
    ],
)
def test_a_token_is_shown_to_a_cluster_that_asks_for_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asks: bool,
    has: bool,
    given: str | None,
    expected: list[str | None],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    if given:
        monkeypatch.setenv("RAY_AUTH_MODE", given)
    if has:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("x")
    modes: list[str | None] = []

    def answer(command: list[str], *, env: dict[str, str], **options: Any) -> Any:
        modes.append(env["RAY_AUTH_MODE"])
        return SimpleNamespace(stderr="RpcError: InvalidAuthToken" if asks and modes[-1] == "disabled" else "")

    monkeypatch.setattr(subprocess, "run", answer)
    if expected[-1] is None:
        with pytest.raises(ClusterError, match="auto asks for its token; copy"):
            cluster._token_mode("auto")
        modes.append(None)
    else:
        assert cluster._token_mode("auto") == modes[-1]
    assert modes == expected


def test_what_listens_but_is_no_cluster_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.setattr(cluster, "_ALL_SECONDS", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(ClusterError, match="no answer as a Ray"):
        cluster._token_mode(f"127.0.0.1:{server.getsockname()[1]}")


def test_the_local_engine_does_the_same() -> None:
    outcomes = list(LocalEngine().map(halved, range(4)))
    assert [type(outcome) for outcome in outcomes] == [Done, Failed, Done, Failed]
    assert [outcome.piece for outcome in outcomes] == list(range(4))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LanguageError("no Klingon"), LanguageError),
        (LoadError("x"), LoadError),
        (MissingExtraError("a model", "torch"), None),
        (ValueError("x"), ValueError),
        (KeyError("x"), KeyError),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "x"), None),
        (SystemExit(3), None),
        (type("TheirError", (Exception,), {})("x"), None),
    ],
)
def test_an_error_is_told_as_it_was(error: BaseException, kind: type | None) -> None:
    told = Told.of(error).error()
    assert isinstance(told, Exception)
    if kind:
        assert type(told) is kind
    assert str(error) in str(told)
    if isinstance(error, InputError | MissingExtraError):
        assert isinstance(told, type(error).__mro__[1])
    elif kind is None:
        assert type(told).__name__ == type(error).__name__


@pytest.mark.parametrize("is_broken", [False, True])
def test_without_ray_the_command_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_broken: bool
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    if is_broken:  # there, but without what it needs
        (tmp_path / "ray.py").write_text("import no_such_package_of_ray")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "ray")
    with pytest.raises(MissingExtraError, match=r'pip install "multilingual-embedding-harness\[ray\]"'), connected():
        pass


def test_an_address_is_looked_at_before_anything_is_done(leaderboard: Any) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    run = ("run", "--suite", "sample", "--encoder", "chargrams", "--engine", "ray", "--address")
    assert "no Ray cluster at 127.0.0.1:9" in one_line_error(leaderboard(*run, "127.0.0.1:9"))
    assert "auto or HOST:PORT" in one_line_error(leaderboard(*run, "ray://somewhere"))


def test_options_of_a_cluster_need_one(leaderboard: Any) -> None:
    options = ("--address", "auto"), ("--gpus-per-worker", "0"), ("--vectors", "object-store")
    for option in options:
        run = leaderboard("run", "--suite", "sample", "--encoder", "chargrams", *option)
        assert "for --engine ray; add it" in one_line_error(run)
