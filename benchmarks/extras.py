"""What each extra weighs: MB in a fresh environment, and the seconds of `pip install`.

python benchmarks/extras.py demo torch --first torch==2.13.0

An environment is made for each extra and removed again. `--first` is installed before extras that need PyTorch, so that
pip does not take the build with CUDA.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent


def size(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def installed(extra: str, first: list[str]) -> tuple[float, float]:
    """MB that `pip install` adds to an empty environment, and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        empty = size(Path(folder))
        pip = [f"{folder}/bin/pip", "--disable-pip-version-check", "--quiet", "install", "-c", "constraints.txt"]
        start = time.monotonic()
        for what in (first, [f".[{extra}]" if extra else "."]):
            if what:
                subprocess.run([*pip, *what], cwd=ROOT, check=True)
        return (size(Path(folder)) - empty) / 1e6, time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extras", nargs="*", default=["", "demo", "mining", "board", "onnx", "remote"])
    parser.add_argument("--first", nargs="*", default=[], help="packages that are installed before")
    given = parser.parse_args()
    print("| extra | MB | seconds |\n| --- | ---: | ---: |")
    for extra in given.extras:
        megabytes, seconds = installed(extra, given.first)
        print(f"| {extra or 'none'} | {megabytes:,.0f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
