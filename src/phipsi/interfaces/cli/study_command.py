"""`phipsi study`: run a study of a file, look at it, and write its report."""

from __future__ import annotations

import runpy
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from phipsi.interfaces.cli.common import FAILED, INTERRUPTED, aligned, command, complain, say

if TYPE_CHECKING:
    from phipsi.studies.study import Study
    from phipsi.studies.study_results import StudyResults

study_app = App(
    name="study",
    help="""Run many simulations that differ in what is drawn, and analyse them.

    FILE is a Python file that defines `study = pp.Study(…)`, or a scenario with a table `[study]`.
    """,
    help_format="markdown",
)
_MOST_NAMES = 20


@command
def run(
    file: Path,
    /,
    *,
    folder: Path | None = None,
    workers: int = 1,
    executor: str = "local",
    retries: int = 2,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    shared_folder: bool = False,
) -> int:
    """Run what is missing of a study; one that was interrupted goes on.

    Parameters
    ----------
    file
        A Python file that defines `study = pp.Study(…)`, or a scenario (.toml) with `[study]`.
    folder
        Where results are kept; by default beside the file, with its name.
    workers
        Processes.
    executor
        local, dask, or the address of a scheduler of dask.distributed (tls://…).
    retries
        How often a block is tried again whose process died.
    time_limit
        Seconds that a block may take.
    memory_limit
        Bytes that a worker may have.
    shared_folder
        The workers of a cluster write blocks into the folder: they see it at the same path.
    """
    with _plain_warnings():
        study = _study_of(file)
        target = folder or file.with_suffix(".study")
        found = study.run(
            target, workers=workers, executor=executor, retries=retries, time_limit=time_limit,
            memory_limit=memory_limit, shared_folder=shared_folder,
        )  # fmt: skip
    _describe(found)
    if found.interrupted:
        return INTERRUPTED
    return 0 if found.complete else FAILED


@command
def status(folder: Path, /) -> int:
    """Show how far a study is, also while it runs.

    Parameters
    ----------
    folder
        The folder of a study.
    """
    from phipsi.studies.study_results import load_results

    with _plain_warnings():
        found = load_results(folder, check=True)
    _describe(found)
    return 0


@command
def report(folder: Path, page: Path | None = None, /) -> int:
    """Write a page about the results of a study: distributions, bands over time, what matters.

    Parameters
    ----------
    folder
        The folder of a study.
    page
        The HTML file; by default report.html in the folder.
    """
    from phipsi.interfaces.page.study_page import study_report
    from phipsi.studies.study_results import load_results

    with _plain_warnings():
        found = load_results(folder, check=True)
    target = study_report(found, page or folder / "report.html")
    say(f"{target}")
    return 0


@command
def show(file: Path, number: int, page: Path | None = None, /) -> int:
    """Run one run of a study again by its number, with the same bits, and write its report.

    Parameters
    ----------
    file
        The file of the study.
    number
        The number of the run, such as that of the worst one.
    page
        The HTML file; by default beside the file.
    """
    from phipsi.interfaces.page.report_page import report

    study = _study_of(file)
    target = page or file.with_name(f"{file.stem}-run-{number}.html")
    drawn = study.draws.values(number, 1) if number in range(study.count) else {}
    about = ", ".join(f"{name} = {x[0]}" for name, x in drawn.items())
    report(study.trajectory(number), target, title=f"Run {number} of {file.name}: {about[:200]}")
    say(f"{target}")
    return 0


study_app.command(run)
study_app.command(run, name="resume")
study_app.command(status)
study_app.command(report)
study_app.command(show)


def _study_of(file: Path) -> Study:
    from phipsi.errors import InputError, shown
    from phipsi.studies.study import Study

    if file.suffix == ".toml":
        from phipsi.interfaces.scenarios.load_scenario import load_scenario

        return load_scenario(file).to_study()
    if file.suffix != ".py" or not file.is_file():
        raise InputError(
            f"{file} is not a Python file that defines  study = pp.Study(…), nor a scenario (.toml)"
        )
    beside = str(file.resolve().parent)
    if beside not in sys.path:
        sys.path.insert(0, beside)  # as for  python FILE
    found = runpy.run_path(str(file), run_name="__study__").get("study")
    if not isinstance(found, Study):
        what = "nothing" if found is None else shown(type(found).__name__)
        raise InputError(f"{file} defines {what} as `study`; it must be a  pp.Study(…)")
    return found


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings of the library as lines of their own, without the place in the code."""
    from phipsi.errors import PhipsiWarning

    usual = warnings.showwarning

    def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, PhipsiWarning):
            complain(f"warning: {message}")
        else:
            usual(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", PhipsiWarning)
        warnings.showwarning = show
        yield


def _describe(found: StudyResults) -> None:
    import numpy as np

    from phipsi.errors import InputError, shown

    there = len(found) if found.names else 0
    rows = [("runs", f"{there} of {found.count}")]
    if there:
        rows.append(("failed", str(found.failed.size)))
    if found.quarantined:
        listed = ", ".join(map(str, sorted(found.quarantined)[:_MOST_NAMES]))
        rows.append(("put aside", f"blocks {listed}"))
    for name in found.outcomes[:_MOST_NAMES]:
        if found[name].ndim == 1:
            try:
                never = np.isinf(found[name]).any()
                guess = found.estimate(np.isfinite(found[name]) if never else name)
                between = f"{guess.low:.4g} to {guess.high:.4g}"
                what = "happens in a share of " if never else ""
                text = f"{what}{guess.value:.4g}, with 95 % confidence {between}"
            except InputError as error:
                text = shown(error, 200)
            rows.append((shown(name)[:60], text))
    for line in aligned(rows):
        say(line)
    for number in found.failed[:_MOST_NAMES] if there else ():
        complain(f"run {number}: {shown(found.reason(number), 300)}")
    for block, why in sorted(found.quarantined.items())[:_MOST_NAMES]:
        complain(f"block {block}: {shown(why.splitlines()[0])}")
