"""Machine code of a run, by its program: known, from the disk, or compiled."""

from __future__ import annotations

import hashlib
from typing import Any

from phipsi.native import MachineCode, linked_code, sources_digest
from phipsi.simulation.runs.run_emitter import RunEmitter
from phipsi.simulation.runs.run_program import RunProgram


def run_code(plan: RunProgram, lanes: int) -> MachineCode:
    """``void phipsi_run(job, 0, 0, 0)``, which leaves the number of the next step in the job.

    ``i64 phipsi_step(job)`` does the same and returns 0 if no trajectory has failed;
    ``i64 phipsi_run_size()`` is the size of the working memory in numbers.
    """
    found = plan.codes.get(lanes)
    if found is not None:
        return found
    sources = plan.sources
    keys = " ".join(source.unit.key() for source in sources)
    text = f"{keys} run {lanes} {_version()} {plan.text()}"
    digest = hashlib.sha256(text.encode()).hexdigest()

    def write(module: Any) -> None:
        RunEmitter(module, plan, plan.natives, lanes, sources=sources)

    found = plan.codes[lanes] = linked_code(digest, sources[0].target, write)
    return found


def _version() -> str:
    """A digest of the sources the code comes from."""
    return sources_digest("simulation", "algorithms")
