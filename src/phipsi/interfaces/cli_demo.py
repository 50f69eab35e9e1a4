"""`phipsi demo`: the library's main job in a minute, with a page to look at."""

from __future__ import annotations

from pathlib import Path

from phipsi.interfaces.cli_common import command


@command
def demo(*, out: Path = Path("phipsi-demo"), open: bool = False) -> int:
    """Load an arm, explain its dynamics, simulate it, check it, and write a report.

        phipsi demo --open

    The report is one HTML file with an animation and plots that opens without a network.

    Parameters
    ----------
    out
        Folder for the robot file, the recording and the report; made if it is not there.
    open
        Open the report in the browser.
    """
    from phipsi.demo import run

    return run(out, open_report=open)
