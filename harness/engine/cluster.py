"""Connecting to a Ray cluster, or starting one of this machine; and keeping its noise from the user."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.core.errors import InputError, MissingExtraError
from harness.core.threads import available_cores
from harness.engine.engine import ClusterError

_STORE_BYTES = 1 << 30  # of the object store of this machine; what does not fit is spilled to disk
_SECONDS = 10.0  # for an answer
_ALL_SECONDS = 20.0  # for one of the cluster's head, the start of a Python with Ray included
_ASK = """
import sys
from ray._private.services import canonicalize_bootstrap_address_or_die
from ray._raylet import GcsClient
GcsClient(address=canonicalize_bootstrap_address_or_die(sys.argv[1])).get_all_node_info(timeout=10)
"""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent to anyone
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # as later versions have it; else a warning
}
_FAR = {"RAY_gcs_rpc_server_reconnect_timeout_s": "120"}  # then Ray ends this process; the engine gives up before


@contextmanager
def connected(address: str | None = None, threads: int = 1) -> Iterator[Any]:
    """Ray, connected to a cluster for the time of a `with` block.

    Args:
        address: `auto`, for the cluster that this machine is a node of, or HOST:PORT; by default `$RAY_ADDRESS`, else
            a cluster of this machine alone, which ends with the block.
        threads: that libraries in workers are started with.

    Raises:
        MissingExtraError: Ray is not installed.
        ClusterError: there is no cluster at this address, or it has another version.
    """
    address = address_of(address)
    try:
        if find_spec("ray") is None:
            raise ImportError  # said before the address is looked at
        # Before the import, which reads them.
        _set(_QUIET)
        if address != "local":
            _set({**_FAR, "RAY_AUTH_MODE": _token_mode(address)})
        import ray
        from ray._private import worker
    except ImportError:
        raise MissingExtraError("the engine ray", "ray") from None
    with suppress(AttributeError):
        worker._worker_logs_enabled = False  # what nodes have to say of their end fills a screen; ours is a line
    own = {
        "num_cpus": available_cores(),
        "object_store_memory": _STORE_BYTES,
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",  # else versions without tokens would take work from the whole network
    }
    numbers = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            runtime_env={"env_vars": {**numbers, "NUMBA_NUM_THREADS": str(threads)}},
            **own if address == "local" else {},
        )
    except Exception as error:  # of many types: no answer, another version of Ray or Python, a machine that is no node
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ClusterError(f"cannot work with the Ray cluster {address} ({why}); ray start --head begins one") from None
    try:
        with _ended_by_sigterm():
            yield ray
    finally:
        ray.shutdown()


def address_of(address: str | None) -> str:
    """The one that is meant where a user gives this one, or none."""
    return address or os.environ.get("RAY_ADDRESS") or "local"


def _set(variables: dict[str, str]) -> None:
    """Set what the user has not set in the environment."""
    os.environ.update({name: os.environ.get(name, value) for name, value in variables.items()})


def _token_mode(address: str) -> str:
    """Look whether a cluster's head answers, for Ray would wait for minutes; and whether it asks for a token.

    Returns:
        The mode of tokens ("disabled" or "token") that this process has to be in. In mode "token" it would refuse the
        nodes of a cluster without tokens, which show none, and data would not reach them.

    Raises:
        InputError: what the address looks like.
        ClusterError: nobody or something else is there, or the token is missing or wrong.
    """
    if address != "auto":
        _check_listens(address)
    given = os.environ.get("RAY_AUTH_MODE")
    for mode in [given] if given else ["disabled", "token"] if _has_token() else ["disabled"]:
        # In another process: a call of Ray's that finds no Ray there writes a screen, and may not come back.
        command = [sys.executable, "-c", _ASK, address]
        try:
            done = subprocess.run(
                command,
                env={**os.environ, "RAY_AUTH_MODE": mode},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_ALL_SECONDS,
            )
        except subprocess.TimeoutExpired:
            why = f"gives no answer as a Ray cluster in {_ALL_SECONDS:.0f} seconds: no head, or one that has ended"
            raise ClusterError(f"what listens at {address} {why}; ray start --head begins one") from None
        if "InvalidAuthToken" not in done.stderr:
            return mode
    raise ClusterError(
        f"the Ray cluster {address} asks for its token; copy ~/.ray/auth_token of its head, or set RAY_AUTH_TOKEN"
    )


def _check_listens(address: str) -> None:
    """Look whether somebody listens. Raises InputError, ClusterError."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        raise InputError(f"--address is auto or HOST:PORT, not {address!r}")
    try:
        socket.create_connection((host, int(port)), timeout=_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(f"no Ray cluster at {address} ({error}); ray start --head begins one") from None


def _has_token() -> bool:
    is_set = "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ
    return is_set or (Path.home() / ".ray" / "auth_token").is_file()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Has SIGTERM (Slurm's end of a job) unwind this process in a `with` block, where Ray would print its stack."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    is_told: list[int] = []

    def end(number: int, frame: object) -> None:
        is_told.append(number)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except SystemExit:
        if is_told:  # Ray's compiled code makes an exit code of 1 of it
            raise SystemExit(128 + is_told[0]) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def end_descendants() -> None:
    """End the processes that this one has started, and those that they have (Linux): all of a cluster of its own."""
    parents: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parents[int(file.parent.name)] = int(file.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    found, ours = {os.getpid()}, -1
    while len(found) > ours:
        ours = len(found)
        found |= {process for process, parent in parents.items() if parent in found}
    for process in found - {os.getpid()}:
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
