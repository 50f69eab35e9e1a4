"""A few thousand mutants of valid files; the full run is `python scripts/fuzz_importers.py`.

PHIPSI_FUZZ_FILES=20000 pytest tests/files/test_fuzz.py     more of every file
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from amounts import FILE_MUTANTS
from file_mutants import mutant, outcome

DATA = Path(__file__).parent / "data"
FILES = sorted(p for p in DATA.iterdir() if p.suffix in (".urdf", ".sdf"))
EACH = FILE_MUTANTS // 2


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("part", range(2))
def test_mutants_give_a_model_or_a_complaint_with_a_line(path: Path, part: int, tmp_path: Path):
    original = path.read_bytes()
    target = tmp_path / path.name
    counts = {"model": 0, "error": 0}
    for seed in range(part * EACH, (part + 1) * EACH):
        target.write_bytes(mutant(original, seed))
        start = time.process_time()  # of this process: others do not count
        try:
            counts[outcome(str(target))] += 1
        except Exception as error:
            raise AssertionError(f"mutant {seed} of {path.name}") from error
        assert time.process_time() - start < 2, f"mutant {seed} took too long"
    assert min(counts.values()) > EACH // 20, counts  # the mutants are neither all good nor all bad


def test_mutants_of_mjcf_in_worker_processes():
    """MuJoCo's reader is C++: were it to crash, only a worker would die, and be reported."""
    script = Path(__file__).parents[2] / "scripts" / "fuzz_importers.py"
    count = str(FILE_MUTANTS // 2)
    command = [sys.executable, str(script), "--kind", "mjcf", "--count", count, "--jobs", "1"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.startswith(f"{count} mutants: ") and " 0 failures" in run.stdout
