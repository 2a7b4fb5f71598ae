"""The engine of a Ray cluster: plain tasks, in a window, done once more where a worker or a node is lost.

Ray could do lost tasks again by itself, but would neither say so nor stop at those that kill their workers: so a task
is done once for Ray, and `RayEngine.map` sends it again. It also chooses the node: of one that is silent (stopped, cut
off) Ray says after a minute that it is dead, but goes on waiting for its tasks.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from harness.core.errors import one_line
from harness.engine.engine import ATTEMPTS, ClusterError, Done, Failed, LoadError, Lost, LostError, Outcome, R, T
from harness.engine.worker import Setting, Told, attempt

_MOST = 10  # attempts, where it is the nodes that die: of no fault of the piece
_LOOK = 2.0  # seconds between two looks at the nodes
_NODE = "its node was lost"
_SHUN = 90.0  # seconds without pieces for a node that seems lost
_SILENCE = 30.0  # seconds without an answer of the head
_PATIENCE = 60.0  # seconds without any place for a worker


@dataclass(frozen=True)
class Needs:
    """What a worker needs of its node.

    Attributes:
        cpus, gpus: of a node, for each worker.
    """

    cpus: int
    gpus: float = 0.0

    def places(self, resources: dict[str, float]) -> int:
        """How many workers a node with these resources has room for."""
        n = int(resources.get("CPU", 0) // self.cpus)
        return min(n, self.of_gpus(resources)) if self.gpus else n

    def of_gpus(self, resources: dict[str, float]) -> int:
        """How many workers the GPUs of a node suffice for; Ray gives no worker parts of two GPUs."""
        gpus = int(resources.get("GPU", 0))
        return gpus * int(1 / self.gpus + 1e-9) if self.gpus < 1 else gpus // int(self.gpus)

    def idle(self, resources: dict[str, float]) -> str:
        """What of a node with these resources no worker will use, though it could with other needs; empty: nothing."""
        cpus, gpus, places = resources.get("CPU", 0), resources.get("GPU", 0), self.places(resources)
        if cpus and not places:
            return "has no room for a worker"
        if places and self.gpus and places < self.of_gpus(resources):
            return f"has CPUs for {places} of the {self.of_gpus(resources)} workers that its {gpus:g} GPUs suffice for"
        return ""


def needs_of(nodes: list[dict[str, Any]], cpus: int | None, gpus: float | None, threads: int) -> Needs:
    """What a worker needs where the user leaves it open.

    A GPU, if there are any: else all workers would take the first one. As many CPUs as threads, but fewer where not
    all GPUs would get a worker.
    """
    resources = [node["Resources"] for node in nodes if node["Alive"]]
    gpus = float(any(each.get("GPU", 0) >= 1 for each in resources)) if gpus is None else gpus
    if cpus is None:
        cpus = threads
        for each in resources if gpus else ():
            if (workers := Needs(1, gpus).of_gpus(each)) and each.get("CPU", 0) >= workers:
                cpus = min(cpus, int(each["CPU"] // workers))
    return Needs(cpus, gpus)


@dataclass
class _Sent:
    piece: Any
    node: str = ""
    attempts: int = 0  # begun before
    deaths: list[str] = field(default_factory=list)  # the nodes on which workers died of it, or could not load


class RayEngine:
    """Pieces are done by the workers of a cluster that this process is connected to (see `harness.engine.cluster`).

    Args:
        ray: the package.
        needs: of each worker.
        say: told in a line what happens to the cluster.
    """

    def __init__(self, ray: Any, needs: Needs, say: Callable[[str], None]):
        self._ray, self._needs, self._say = ray, needs, say
        self._looked_at, self._had_place = 0.0, float("-inf")
        self._nodes: dict[str, str] = {}  # names of those that are alive, by their numbers
        self._places: dict[str, int] = {}  # theirs
        self._shunned: dict[str, float] = {}  # nodes that have lost a piece, until when they get no other
        self._is_cut_off = False
        self.most_in_flight = 0  # pieces that were ever sent at a time
        self.places = 0
        self._look()

    def map(
        self, function: Callable[[T], R], pieces: Iterable[T], on_redone: Callable[[T, str], None] | None = None
    ) -> Iterator[Outcome[T, R]]:
        """See `Engine.map`."""
        ray, setting = self._ray, Setting.here(hides_gpus=not self._needs.gpus)
        # With max_calls, Ray would end a worker that has a GPU after each task, and the model would be loaded again.
        needs = {"num_cpus": self._needs.cpus, "num_gpus": self._needs.gpus, "max_retries": 0, "max_calls": 0}
        task = ray.remote(**needs)(attempt)
        affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        left, again = iter(pieces), deque[_Sent]()
        running: dict[Any, _Sent] = {}
        is_empty = False  # what is left

        def redo(sent: _Sent, why: str) -> None:
            again.append(sent)
            if on_redone:
                on_redone(sent.piece, why)

        try:
            while True:
                while (node := self._free(running.values())) is not None:
                    if again:
                        sent = again.popleft()
                    else:
                        try:
                            sent = _Sent(next(left))
                        except StopIteration:
                            is_empty = True
                            break
                    sent.attempts, sent.node = sent.attempts + 1, node
                    there = task.options(scheduling_strategy=affinity(node, soft=False))
                    running[there.remote(function, sent.piece, setting)] = sent
                    self.most_in_flight = max(self.most_in_flight, len(running))
                if is_empty and not running and not again:
                    return
                if not running:  # no node has a place now
                    time.sleep(max(_LOOK, 0.0))
                for ref in ray.wait(list(running), timeout=_LOOK)[0] if running else ():
                    sent = running.pop(ref)
                    outcome = self._outcome(ref, sent)
                    if isinstance(outcome, str):
                        redo(sent, outcome)
                    else:
                        yield outcome
                self._look()
                for ref in [ref for ref, sent in running.items() if sent.node not in self._nodes]:
                    sent = running.pop(ref)
                    ray.cancel(ref, force=True)
                    outcome = self._given_up(sent, _NODE)
                    if isinstance(outcome, str):
                        redo(sent, outcome)
                    else:
                        yield outcome
        except KeyboardInterrupt:  # the end of this process's job ends its workers
            running.clear()
            raise
        except ClusterError:
            if self._is_cut_off:  # to cancel would wait for the head
                running.clear()
            raise
        finally:
            for ref in running:
                ray.cancel(ref, force=True)

    def _free(self, running: Iterable[_Sent]) -> str | None:
        """The node with the fewest pieces for its places; None if each has twice as many as places."""
        n_there = Counter(sent.node for sent in running)
        loads = {node: n_there[node] / places for node, places in self._open().items()}
        node = min(loads, key=lambda each: loads[each], default=None)
        return node if node is not None and n_there[node] < 2 * self._places[node] else None

    def _open(self) -> dict[str, int]:
        """The places of the nodes that get pieces now."""
        now = time.monotonic()
        return {node: n for node, n in self._places.items() if n and self._shunned.get(node, 0.0) <= now}

    def _shun(self, node: str) -> None:
        self._shunned[node] = time.monotonic() + _SHUN

    def _outcome(self, ref: Any, sent: _Sent) -> Outcome[Any, Any] | str:
        """What became of a task; or why it has to be done once more."""
        errors = self._ray.exceptions
        try:
            value, told = self._ray.get(ref)
        except errors.RayError as error:
            is_its_own = isinstance(error, errors.RayTaskError | errors.RuntimeEnvSetupError)
            # An argument that did not reach the worker is told as the task's error, too; it may reach another.
            if is_its_own and not isinstance(error, errors.ObjectLostError):
                # Not the function's error, which is told: a package that the node lacks, a result that cannot be sent.
                last = (str(error).strip().splitlines() or [type(error).__name__])[-1]
                why = f"a worker cannot do its work ({last}); see leaderboard engine check"
                return Failed(sent.piece, ClusterError(why), sent.attempts)
            if isinstance(error, errors.WorkerCrashedError | errors.OutOfMemoryError):
                sent.deaths.append(sent.node)
            else:  # Ray may say for a minute that the node is alive
                self._shun(sent.node)
            is_node = isinstance(error, errors.NodeDiedError | errors.TaskUnschedulableError)
            return self._given_up(sent, _NODE if is_node else _how(error))
        if isinstance(told, Told):
            raised = told.error()
            if not isinstance(raised, LoadError) or len(sent.deaths) + 1 >= ATTEMPTS or sent.attempts >= _MOST:
                return Failed(sent.piece, raised, sent.attempts)
            # It was loaded elsewhere, so this may be the node's fault; but if all nodes do so, none is avoided.
            sent.deaths.append(sent.node)
            if any(node != sent.node for node in self._open()):
                self._shun(sent.node)
            return str(raised)
        return Done(sent.piece, value, sent.attempts)

    def _given_up(self, sent: _Sent, why: str) -> Lost[Any] | str:
        """That a piece is given up; or why it is not. Workers that died with their nodes did not die of it."""
        if sum(node in self._nodes for node in sent.deaths) >= ATTEMPTS or sent.attempts >= _MOST:
            return Lost(sent.piece, LostError(f"given up after {sent.attempts} attempts: {why}"), sent.attempts)
        return why

    def _ask_nodes(self) -> list[dict[str, Any]]:
        """The nodes. Raises ClusterError: the head does not tell; Ray would end this process after a while."""
        answers: SimpleQueue[Any] = SimpleQueue()

        def ask() -> None:
            try:
                answers.put(self._ray.nodes())
            except Exception as error:  # of many types, and all mean the same
                answers.put(error)

        threading.Thread(target=ask, daemon=True).start()
        try:
            answer = answers.get(timeout=_SILENCE)
        except Empty:
            answer = None
        if isinstance(answer, list):
            return answer
        why = f" ({one_line(answer)})" if answer is not None else f" for {_SILENCE:.0f} seconds"
        self._is_cut_off = True
        raise ClusterError(f"the head of the Ray cluster does not answer{why}; what is done is stored: run again")

    def _look(self) -> None:
        """Count the places, and say which nodes have come and gone. Raises ClusterError: there is none for long."""
        now = time.monotonic()
        if now < self._looked_at + _LOOK and self.places:
            return
        self._looked_at = now
        alive = [node for node in self._ask_nodes() if node["Alive"]]
        names = {node["NodeID"]: name_of(node) for node in alive}
        for lost in self._nodes.keys() - names.keys():
            self._say(f"node {self._nodes[lost]} is lost; its pieces are done again by others")
        for new in names.keys() - self._nodes.keys() if self._nodes else ():
            self._say(f"node {names[new]} has joined")
        self._nodes = names
        self._places = {node["NodeID"]: self._needs.places(node["Resources"]) for node in alive}
        self.places = sum(self._places.values())
        if self.places:
            self._had_place = now
        elif now > self._had_place + _PATIENCE:
            raise ClusterError(
                f"no node has room for a worker ({self._needs.cpus} CPUs and {self._needs.gpus:g} GPUs each); nodes: "
                + ("; ".join(f"{name_of(node)}: {_resources(node)}" for node in alive) or "none")
            )


def in_use(ray: Any) -> str:
    """What of the cluster somebody uses; empty: nothing."""
    total, free = ray.cluster_resources(), ray.available_resources()
    parts = [
        f"{total[name] - free.get(name, 0):g} of {total[name]:g} {name}s"
        for name in ("CPU", "GPU")
        if total.get(name, 0) - free.get(name, 0) > 1e-6
    ]
    return " and ".join(parts)


def name_of(node: dict[str, Any]) -> str:
    """A node as a user knows it: host name and address, and the start of its number, for there may be two of a host."""
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node['NodeID'][:6]})"


def _resources(node: dict[str, Any]) -> str:
    return f"{node['Resources'].get('CPU', 0):g} CPUs, {node['Resources'].get('GPU', 0):g} GPUs"


def _how(error: Exception) -> str:
    kind = type(getattr(error, "cause", error)).__name__
    if kind == "OutOfMemoryError":
        return "Ray ended its worker, for the node ran out of memory"
    return "its worker died" if kind == "WorkerCrashedError" else f"its worker was lost ({kind})"
