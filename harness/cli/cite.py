"""`leaderboard cite`: what to cite for what was used."""

from __future__ import annotations

import typer

from harness.cli.options import EncoderOption, ResultsOption, TaskOption, results_folder


def cite(results: ResultsOption = None, task: TaskOption = None, encoder: EncoderOption = None) -> None:
    """Print BibTeX for what was used. That is the harness, and the tasks, data sets and encoders of all stored results.

    With --task and --encoder: for these, stored or not; of a task its published data sets too. What has no known
    citation, and data sets of your own, are named in a line of comment.

    Example: leaderboard cite > used.bib
    """
    from harness.encoders.registry import encoder_info
    from harness.encoders.spec import parse_spec
    from harness.protocol import get_task
    from harness.report import citations
    from harness.results.selection import stored
    from harness.results.store import ResultStore

    if not task and not encoder:
        typer.echo(citations.bibtex(citations.of_results(stored(ResultStore(results_folder(results))))))
        return
    things = [citations.of_harness()]
    for name in task or ():
        chosen = get_task(name)
        things += [citations.of_task(name), *citations.sets_of_task(chosen)]
    for text in encoder or ():
        spec = parse_spec(text)
        encoder_info(spec.head)  # an alias or kind that nobody offers is an error of the user's
        things.append(citations.of_encoder(spec.stored_name, text))
    typer.echo(citations.bibtex(things))
