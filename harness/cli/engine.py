"""`leaderboard engine check`, and the options with which other commands choose an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import ENDINGS, say
from harness.cli.options import CacheDirOption
from harness.core.errors import InputError

if TYPE_CHECKING:
    from harness.engine.engine import Engine

app = typer.Typer(help="A cluster that encodes and mines (--engine ray).", no_args_is_help=True)


class EngineChoice(str, Enum):
    """Where the work is done."""

    local = "local"
    ray = "ray"


class VectorsChoice(str, Enum):
    """How vectors come from the workers."""

    shared = "shared"
    object_store = "object-store"


EngineOption = Annotated[
    EngineChoice, typer.Option("--engine", help="local: this process; ray: the workers of a Ray cluster.")
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="auto|HOST:PORT",
        show_default="$RAY_ADDRESS or this machine's cores and GPUs",
        help="Of the cluster.",
    ),
]
CpusOption = Annotated[
    int | None,
    typer.Option(
        "--cpus-per-worker",
        metavar="N",
        min=1,
        show_default="--threads, or fewer for each GPU to get a worker",
        help="CPUs of a worker.",
    ),
]
GpusOption = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-worker",
        metavar="N",
        min=0,
        show_default="1 where there are GPUs",
        help="GPUs of a worker; 0.5: two share one; 0: none is used.",
    ),
]
VectorsOption = Annotated[
    VectorsChoice,
    typer.Option(
        "--vectors", help="shared: workers write into the cache folder; object-store: they send vectors back."
    ),
]


@contextmanager
def opened(
    choice: EngineChoice,
    address: str | None,
    cpus: int | None,
    gpus: float | None,
    shared: Path | None,
    *,
    name: str = "cache folder",
    remedy: str = "",
) -> Iterator[Engine | None]:
    """The engine of a command for the time of a `with` block; None where it is this process.

    shared: the folder that all nodes must see, if they must. name: what it is. remedy: what else to do.

    Raises:
        InputError: options of a cluster without one; there is no cluster, or a node does not see the folder.
        MissingExtraError: Ray is not installed.
    """
    if choice is EngineChoice.local:
        if address or cpus or gpus is not None:
            raise InputError("--address, --cpus-per-worker and --gpus-per-worker are for --engine ray; add it")
        yield None
        return
    if gpus and not (0.001 <= gpus <= 1 or gpus.is_integer()):
        raise InputError(f"--gpus-per-worker {gpus:g}: Ray gives a part of one GPU (0.5, say), or whole ones")
    from harness.core.threads import n_threads
    from harness.engine.check import blind_nodes, differences, nodes_of
    from harness.engine.cluster import address_of, connected, end_descendants
    from harness.engine.encoding import REMEDY
    from harness.engine.ray_engine import RayEngine, in_use, name_of, needs_of

    endings = [end_descendants] if address_of(address) == "local" else []  # other clusters are not ours to end
    with _ending(endings), connected(address, n_threads()) as ray:
        nodes_alive = [node for node in ray.nodes() if node["Alive"]]
        needs = needs_of(nodes_alive, cpus, gpus, n_threads())
        engine = RayEngine(ray, needs, say)
        say(f"ray: {_workers(engine.places)} of {needs.cpus} CPUs, {needs.gpus:g} GPUs and {n_threads()} threads each")
        for node in nodes_alive:
            if idle := needs.idle(node["Resources"]):
                say(f"warning: {name_of(node)} {idle}; --cpus-per-worker and --gpus-per-worker change that")
        if endings == [] and (busy := in_use(ray)):
            say(f"others use {busy} now; pieces wait for room")
        for difference in differences(nodes_of(ray)):
            say(f"warning: {difference}")
        if shared is not None and (blind := blind_nodes(ray, shared)):
            nodes = "; ".join(f"{node}: {why}" for node, why in blind.items())
            raise InputError(f"the {name} {shared} is not seen by all nodes ({nodes}); {remedy or REMEDY}")
        yield engine


@contextmanager
def _ending(endings: list[Callable[[], None]]) -> Iterator[None]:
    """Has an interruption call these, in a `with` block."""
    ENDINGS.extend(endings)
    try:
        yield
    finally:
        for end in endings:
            ENDINGS.remove(end)


def _workers(n: int) -> str:
    return "1 worker" if n == 1 else f"{n} workers"


@app.callback()
def _group() -> None:
    """A cluster that encodes and mines (--engine ray)."""


@app.command()
def check(address: AddressOption = None, cache_dir: CacheDirOption = None) -> None:
    """Look at a cluster. Nodes, CPUs, GPUs, versions, and whether every node sees the cache folder.

    A line on stderr for each thing that does not fit, and exit code 2.

    Example: leaderboard engine check --address auto
    """
    from harness.core.threads import n_threads
    from harness.encoders.cache import VectorCache
    from harness.engine.check import blind_nodes, differences, nodes_of
    from harness.engine.cluster import connected
    from harness.report.cells import Cell, Column, Row, Table
    from harness.report.render import render

    with connected(address, n_threads()) as ray:
        nodes = nodes_of(ray)
        blind = blind_nodes(ray, VectorCache(cache_dir).root.absolute())
    columns = [Column("node", is_number=False), Column("CPUs"), Column("GPUs"), Column("GPU", is_number=False)]
    columns += [Column("processor", is_number=False), Column("Python"), Column("harness"), Column("cache folder")]
    rows = []
    for node in nodes:
        cells = [Cell(node.name), Cell(f"{node.cpus:g}"), Cell(f"{node.gpus:g}"), Cell(node.gpu), Cell(node.processor)]
        versions = [Cell(node.versions.get(name, "?")) for name in ("python", "multilingual-embedding-harness")]
        rows.append(Row((*cells, *versions, Cell("not seen" if node.name in blind else "seen"))))
    typer.echo(render([Table("Nodes", tuple(columns), tuple(rows), ())]))
    problems = [*differences(nodes), *(f"{node}: cache folder {why}" for node, why in blind.items())]
    for problem in problems:
        say(problem)
    if problems:
        raise typer.Exit(2)
