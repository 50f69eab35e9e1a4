"""The width of a number is a property of the target, which the native backend never writes out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import phipsi
from phipsi.native.targets.target import Target
from phipsi.native.text.lane_arithmetic import NUMBERS, WORD, Emitter

NATIVE = Path(phipsi.__file__).parent / "native"
WIDTHS = (4, 8)


def written_out(source: str) -> Iterator[int]:
    """Lines with 4 or 8 as bytes: in a product, as an alignment, or as an integer of the code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            found = [node.left, node.right]
            if any(isinstance(x, ast.List) for x in found):
                continue  # several of a type
        elif isinstance(node, ast.keyword) and node.arg == "align":
            found = [node.value]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "i64":
            found = node.args
        else:
            continue
        if any(isinstance(x, ast.Constant) and x.value in WIDTHS for x in found):
            yield getattr(node, "lineno", 0)


# something else: rows of poses of 4 × 4, bits of a byte
OTHERS = {"kernel/kernel_inputs.py": 1, "text/llvm_values.py": 1}


def test_no_module_writes_the_bytes_of_a_number() -> None:
    """Bytes come from `Emitter`, `Target.unit` or `WORD`."""
    found = {
        str(path.relative_to(NATIVE)): len(lines)
        for path in sorted(NATIVE.rglob("*.py"))
        if (lines := list(written_out(path.read_text(encoding="utf-8"))))
    }
    assert found == OTHERS


@pytest.mark.parametrize("line", ["x = 8 * lanes", "b.load(p, align=8)", "b.mul(i, i64(8))"])
def test_the_search_finds_what_it_looks_for(line: str) -> None:
    assert list(written_out(line))


def test_widths_follow_from_the_target() -> None:
    """Bytes, integers and names of intrinsics of both kinds of number."""
    for name, (bytes_, suffix) in {"double": (8, "f64"), "float": (4, "f32")}.items():
        target = Target("", "", 4, False, number=name)  # type: ignore[arg-type]
        e = Emitter(target.lanes, fused=False, number=target.number)
        assert target.unit == e.unit == bytes_ and e.bytes == 4 * bytes_
        assert e.number.suffix == suffix and e.integers.text == f"<4 x i{8 * bytes_}>"
    assert WORD == 8


def test_tolerances_are_the_same_power_of_rounding() -> None:
    double, single = NUMBERS["double"], NUMBERS["float"]
    assert double.tolerance(1e-14) == 1e-14
    assert single.tolerance(2.0**-52) == pytest.approx(2.0**-23)
    assert 2.0**-23 < single.tolerance(1e-14) < 1e-5
