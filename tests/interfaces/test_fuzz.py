"""A few thousand mutants of valid files; the full run is `python scripts/fuzz_importers.py`."""

import time
from pathlib import Path

import pytest
from interfaces.mutants import mutant, outcome

DATA = Path(__file__).parent / "data"
FILES = sorted(p for p in DATA.iterdir() if p.suffix in (".urdf", ".sdf"))
EACH = 1500


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("part", range(2))
def test_mutants_give_a_model_or_a_complaint_with_a_line(path: Path, part: int, tmp_path: Path):
    original = path.read_bytes()
    target = tmp_path / path.name
    counts = {"model": 0, "error": 0}
    for seed in range(part * EACH, (part + 1) * EACH):
        target.write_bytes(mutant(original, seed))
        start = time.perf_counter()
        try:
            counts[outcome(str(target))] += 1
        except Exception as error:
            raise AssertionError(f"mutant {seed} of {path.name}") from error
        assert time.perf_counter() - start < 2, f"mutant {seed} took too long"
    assert min(counts.values()) > EACH // 20, counts  # the mutants are neither all good nor all bad
