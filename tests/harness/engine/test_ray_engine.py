"""What the engine of a Ray cluster does with what Ray tells, by a Ray that is made up; the real one: `test_ray.py`."""

from __future__ import annotations

import builtins
import sys
from collections import Counter
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import one_line_error
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import InputError, LanguageError, MissingExtraError, VectorError
from harness.engine import ray_engine
from harness.engine.cluster import connected
from harness.engine.engine import ClusterError, Done, Failed, LoadError, Lost
from harness.engine.local import LocalEngine
from harness.engine.ray_engine import Needs, RayEngine
from harness.engine.worker import Setting, Told


class RayError(Exception): ...


class RayTaskError(RayError): ...


class WorkerCrashedError(RayError): ...


class NodeDiedError(RayError): ...


class OutOfMemoryError(RayError): ...


class RuntimeEnvSetupError(RayError): ...


class TaskUnschedulableError(RayError): ...


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


def test_without_ray_the_command_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, leaderboard: Any) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "ray":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    with pytest.raises(MissingExtraError, match=r'pip install "multilingual-embedding-harness\[ray\]"'), connected():
        pass


def test_an_address_is_looked_at_before_anything_is_done(leaderboard: Any) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    run = ("run", "--suite", "sample", "--encoder", "chargrams", "--engine", "ray", "--address")
    assert "no Ray cluster at 127.0.0.1:9" in one_line_error(leaderboard(*run, "127.0.0.1:9"))
    assert "auto or HOST:PORT" in one_line_error(leaderboard(*run, "ray://somewhere"))
    assert "add it" in one_line_error(leaderboard("run", "--suite", "sample", "--address", "auto"))
