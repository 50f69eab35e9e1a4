"""Damaged trajectory files and mutants of scenarios, and what must come of them.

    data = damaged(original, seed)              # bytes of a trajectory file
    text = scenario_mutant(original, seed)      # bytes of a scenario

The same seed gives the same file. Half of the trajectory files are damaged as bytes; the others are
archives in good order whose members, array headers, numbers or JSON say something else.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from file_mutants import mutated

VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 10**400, -(10**30), 1e308, 5e-324, float("nan"), float("inf"), "",
    "x" * 3000, "\ud800", "\x1b[31m\n\u202e", "=1+1", [], [[]], {}, {"a": 1}, [0] * 500,
)  # fmt: skip
SHAPES = ("()", "(0,)", "(1,)", "(-1,)", "(3, 4)", "(1000000000000,)", "(1.5,)", "(0, -9)")
TYPES = ("<f4", ">f8", "|O", "<i8", "|u1", "<c16", "|S8", "<M8[s]", "[('a','<f8')]", "V8", "|b1")
NUMBERS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, 1e154, -1.0)


# ---- trajectories --------------------------------------------------------------------------------


def damaged(original: bytes, seed: int) -> bytes:
    """One damaged file."""
    rng = random.Random(seed)
    data = original
    if rng.random() < 0.5:
        for _ in range(rng.choice((1, 1, 2, 4))):
            data = _bytes(data, rng)
        return data
    members = _members(original)
    for _ in range(rng.choice((1, 1, 2))):
        change = rng.choice((_json, _json, _json, _header, _numbers, _numbers, _member))
        with contextlib.suppress(Exception):  # what was damaged before stays as it is
            change(members, rng)
    data = _archive(members, rng)
    return _claims(data, rng) if rng.random() < 0.2 else data


def _bytes(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return b"PK"
    at, length = rng.randrange(len(data)), rng.choice((1, 1, 2, 8, 64, 512))
    if rng.random() < 0.4:  # the directory at the end says where everything is
        at = max(len(data) - rng.randrange(1, 2500), 0)
    some = bytes(rng.randrange(256) for _ in range(length))
    return rng.choice(
        (
            data[:at] + some + data[at + length :],
            data[:at] + some + data[at + length :],
            data[:at] + some[:1] + data[at + 1 :],
            data[:at] + data[at + length :],
            data[:at] + some + data[at:],
            data[:at],
            data + some,
            data[:at] + b"\xff" * length + data[at + length :],
            data[:at] + bytes(length) + data[at + length :],
            data[: at + length] + data[at:],
        )
    )


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def _archive(members: dict[str, bytes], rng: random.Random) -> bytes:
    out = io.BytesIO()
    how = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that occur twice
        with zipfile.ZipFile(out, "w", how) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
            if rng.random() < 0.1:
                archive.writestr(*rng.choice(list(members.items())))
    return out.getvalue()


def _array(data: bytes) -> np.ndarray:
    return np.load(io.BytesIO(data), allow_pickle=False)


def _npy(a: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, a, allow_pickle=False)
    return out.getvalue()


def _json(members: dict[str, bytes], rng: random.Random) -> None:
    """A value of the header becomes another, goes, or moves."""
    header = json.loads(_array(members["header.npy"]).tobytes())
    places: list[tuple[Any, Any]] = []

    def walk(x: Any) -> None:
        for key in x if isinstance(x, dict) else range(len(x)):
            places.append((x, key))
            if isinstance(x[key], (dict, list)):
                walk(x[key])

    walk(header)
    (inside, key), (other, there) = rng.choice(places), rng.choice(places)
    kind = rng.randrange(5)
    if kind == 0:
        del inside[key]
    elif kind == 1:
        inside[key] = other[there] if not isinstance(other[there], (dict, list)) else "moved"
    elif kind == 2:
        inside[key] = json.loads("[" * 400 + "]" * 400)
    else:
        inside[key] = rng.choice(VALUES)
    text = json.dumps(header)
    if rng.random() < 0.1:
        text = rng.choice(("[" * 5000, text[: rng.randrange(len(text))], "null", "1" * 6000, ""))
    members["header.npy"] = _npy(np.frombuffer(text.encode(), dtype=np.uint8))


def _header(members: dict[str, bytes], rng: random.Random) -> None:
    """The header of an array claims another shape, order or type."""
    name = rng.choice(list(members))
    data = members[name]
    end = data.index(b"\n")
    text = data[10:end].decode("latin1")
    change = rng.choice(
        (
            lambda: re.sub(r"\([^)]*\)", lambda _: rng.choice(SHAPES), text),
            lambda: re.sub(r"'descr': '[^']*'", f"'descr': {rng.choice(TYPES)!r}", text),
            lambda: text.replace("False", "True"),
            lambda: text.replace("shape", "Shape"),
            lambda: "x" * len(text),
            lambda: "(" * len(text),
        )
    )
    new = change().encode("latin1")
    start = data[:8] + struct.pack("<H", (len(new) + 1) % 65536)
    if rng.random() < 0.2:
        start = data[:6] + bytes([rng.choice((0, 1, 2, 3, 9)), 0]) + start[8:]
    members[name] = start + new + data[end:]


def _numbers(members: dict[str, bytes], rng: random.Random) -> None:
    """Some numbers of an array become others."""
    names = [n for n in members if n != "header.npy" and _array(members[n]).size]
    name = rng.choice(names)
    a = np.array(_array(members[name]))
    kind = rng.randrange(4)
    for _ in range(rng.choice((1, 3, 20))):
        a.flat[rng.randrange(a.size)] = rng.choice(NUMBERS)
    if kind == 1:
        a = a[:-1]
    elif kind == 2:
        a = np.flip(a)
    elif kind == 3:
        a = np.repeat(a, 2, axis=0)
    members[name] = _npy(a)


def _member(members: dict[str, bytes], rng: random.Random) -> None:
    """A member goes, is another one, empty or noise."""
    name, other = rng.choice(list(members)), rng.choice(list(members))
    kind = rng.randrange(5)
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[name] = members[other]
    elif kind == 2:
        members[name] = rng.choice((b"", b"\x93NUMPY", b"PK\x05\x06", members[name][:20]))
    elif kind == 3:
        members[rng.choice(("../x.npy", "/etc/x.npy", "q.npy/", "\x1b.npy"))] = members[name]
    else:
        members["dense_values.npy"] = _npy(np.zeros((2, rng.choice((0, 5, 9, 99)), 3)))


def _claims(data: bytes, rng: random.Random) -> bytes:
    """A size, offset, method or flag in the archive's own directory becomes another."""
    marks = [m.start() for m in re.finditer(b"PK\x01\x02|PK\x03\x04|PK\x05\x06", data)]
    at = rng.choice(marks) + rng.choice((8, 10, 12, 16, 20, 24, 28, 30, 42))
    number = rng.choice((0, 1, 9, 99, 2**16 - 1, 2**31, 2**32 - 1, rng.randrange(2**32)))
    return data[:at] + struct.pack("<I", number) + data[at + 4 :]


def trajectory_outcome(path: Path) -> str:
    """ "trajectory" or "error", the two ways to end well; anything else raises."""
    import phipsi as pp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = pp.Trajectory.load(path)
        except pp.errors.ParseError as error:
            _check_text(str(error))
            return "error"
        arrays = (run.t, run.q, run.v, run.tau, run.energy, run.momentum, run.constraint_residuals)
        if not all(np.isfinite(a).all() for a in arrays):
            raise AssertionError("numbers that are not finite came in")
        _check_text(repr(run))
        run.to_csv(path.with_suffix(".csv"))
        again = path.with_suffix(".again.npz")
        run.save(again)
        np.testing.assert_array_equal(pp.Trajectory.load(again).q, run.q)
        if len(run):
            try:
                run.at(float(run.t[0]) / 2 + float(run.t[-1]) / 2)
            except pp.errors.PhipsiError as error:  # no rotation, numbers beyond all bounds
                _check_text(str(error))
    return "trajectory"


def _check_text(text: str) -> None:
    if not text.replace("\n", "").isprintable() or len(text) > 20_000:
        raise AssertionError(f"text that acts, or without end: {text[:200]!r}")


# ---- scenarios -----------------------------------------------------------------------------------

TOKENS = (
    "1" + "0" * 400, "-1" + "0" * 400, "1" * 5000, "0x" + "f" * 5000, "0o7", "0b1", "1e400", "nan",
    "-inf", "inf", "1_000", "5e-324", "-1", "0", "true", "1979-05-27", "07:32:00", "''", '"x"',
    "[]", "{}", "[[1]]", '"\\u202e"', '"\\u001b[31m"', '"\\ud800"', "[" * 400 + "]" * 400,
    "{a=" * 300 + "1" + "}" * 300, '"' + "x" * 5000 + '"', '"../../etc/passwd"', '"/dev/zero"',
    "'''", '"""', "1e", "--1", "½", "x" + ".x" * 60, "[" * 20_000,
)  # fmt: skip
LINES = (
    "a" + ".a" * 40 + " = 1", "a" + ".a" * 3000 + " = 1", "[a" + ".a" * 3000 + "]", "[model]",
    "[[model]]", "[initial.q]", "[[forces]]\ntype = 'Gravity'", "[output]\nnpz = 'x.npz'", "\0",
    "\x1b[31m = 1", '"\\u001b]0;x\\u0007" = 1', "= 1", "[", "]]", "# \x7f", "[initial.v]\n'' = 0",
    "duration = 1", "[integrator]\nname = 'rk4'\ndt = 1e-300",
)  # fmt: skip
_TOKEN = re.compile(r'"[^"\n]*"|\'[^\'\n]*\'|\[[^\[\]\n]*\]|[-+.\w]+')


def scenario_mutant(original: bytes, seed: int) -> bytes:
    """One mutant of a scenario."""
    return mutated(original, seed, (_token, _token, _token, _line, _line, _key), _bytes)


def _token(text: str, rng: random.Random) -> str:
    found = [m.span() for m in _TOKEN.finditer(text)]
    if not found:
        return text
    (a, b), (c, d) = rng.choice(found), rng.choice(found)
    return text[:a] + (rng.choice(TOKENS) if rng.random() < 0.7 else text[c:d]) + text[b:]


def _line(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    at, other = rng.randrange(len(lines)), rng.choice(lines)
    kind = rng.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, other)
    else:
        lines.insert(at, rng.choice(LINES))
    return "\n".join(lines)


def _key(text: str, rng: random.Random) -> str:
    found = [m.span(1) for m in re.finditer(r"^([\w.-]+) *=", text, re.MULTILINE)]
    if not found:
        return text
    (a, b), (c, d) = rng.choice(found), rng.choice(found)
    new = rng.choice(
        ("'\x1b'", '"a.b"', "ü", text[c:d], text[a:b] + "x", text[a:b] + "." + text[c:d])
    )
    return text[:a] + new + text[b:]


def scenario_outcome(path: Path) -> str:
    """ "scenario" or "error", the two ways to end well; anything else raises."""
    import phipsi as pp
    from phipsi.errors import FileError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = pp.load_scenario(path)
        except pp.errors.PhipsiError as error:
            if not isinstance(error, FileError) or error.line < 1:
                raise AssertionError(f"no file and line: {error}") from error
            _check_text(str(error))
            return "error"
    if not (np.isfinite(found.q0).all() and np.isfinite(found.v0).all()):
        raise AssertionError("numbers that are not finite came in")
    return "scenario"


# ---- what to start from --------------------------------------------------------------------------


def trajectory_files(folder: Path) -> list[bytes]:
    """Files as `save` writes them: a tree with events and dense output, and a free body."""
    import phipsi as pp

    arm = pp.examples.planar_arm(2)
    down = pp.Event(lambda t, q, v: q[0] - 0.05, name="passes")
    runs = [
        pp.simulate(arm, [0.1, 0.2], [0, 0], 0.3, events=down, rtol=1e-4),
        pp.simulate(
            pp.examples.free_flyer(), pp.examples.free_flyer().neutral(),
            np.full(pp.examples.free_flyer().nv, 0.1), 0.02, integrator="rk4", dt=0.01,
        ),
    ]  # fmt: skip
    out = []
    for i, run in enumerate(runs):
        run.save(folder / f"whole{i}.npz")
        out.append((folder / f"whole{i}.npz").read_bytes())
    return out


def scenario_files() -> list[bytes]:
    """The scenarios of the examples, and one with everything there is."""
    examples = Path(__file__).parents[2] / "examples"
    return [*(p.read_bytes() for p in sorted(examples.glob("*.toml"))), _EVERYTHING.encode()]


_EVERYTHING = """\
title = "everything"
duration = 0.5
model = { robot = "seven_joint_arm", gravity = [0.0, 0.0, -9.81] }

[initial]
q = { shoulder_yaw = 0.3, elbow_pitch = "30deg" }
v = { shoulder_yaw = [0.1] }

[integrator]
name = "rk4"
dt = 1e-3

[[forces]]
type = "JointSpring"
joints = ["shoulder_yaw"]
stiffness = 2.0
rest = 0.1

[[forces]]
type = "JointDamper"
damping = 0.1

[controller]
type = "PDGravity"
kp = 10.0
kd = 1.0

[[events]]
joint = "shoulder_yaw"
value = 0.35

[output]
every = 0.01
npz = "run.npz"
csv = "run.csv"
"""
