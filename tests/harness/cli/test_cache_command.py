"""`leaderboard cache` as a user drives it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path


def test_size_and_clear(leaderboard: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    run = ("run", "--encoder", "chargrams", "--subset", "en-en@sample", "--cache-dir", "cache")
    assert leaderboard(*run).returncode == 0
    on_disk = sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*.shard"))
    size = leaderboard("cache", "size", "--cache-dir", "cache").stdout
    assert "chargrams" in size and size.splitlines()[-1].split()[0] == f"{on_disk:,}"
    assert f"{on_disk:,} bytes freed" in leaderboard("cache", "clear", "--cache-dir", "cache").stdout
    assert leaderboard("cache", "size", "--cache-dir", "cache").stdout.split()[0] == "0"
    # Cleared vectors are encoded again; stored results stand.
    assert "(stored)" in leaderboard(*run).stderr
    assert leaderboard(*run, "--fresh").returncode == 0
