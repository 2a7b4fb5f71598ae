"""`leaderboard cache`: the vectors that are kept on disk."""

from __future__ import annotations

import typer

from harness.cli.options import CacheDirOption
from harness.core.escaping import terminal

app = typer.Typer(help="Size of the vector cache, and clearing it.", no_args_is_help=True)


@app.command()
def size(cache_dir: CacheDirOption = None) -> None:
    """Print bytes and encoder (name and fingerprint), and the total."""
    from harness.encoders.cache import VectorCache

    sizes = VectorCache(cache_dir).size()
    for encoder, number in sorted(sizes.items()):
        typer.echo(terminal(f"{number:>15,}  {encoder}"))
    typer.echo(f"{sum(sizes.values()):>15,}  bytes in {len(sizes)} encoders")


@app.command()
def clear(cache_dir: CacheDirOption = None) -> None:
    """Delete all vectors (models stay)."""
    from harness.encoders.cache import VectorCache

    typer.echo(f"{VectorCache(cache_dir).clear():,} bytes freed")
