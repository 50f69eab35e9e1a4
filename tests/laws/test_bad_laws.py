"""Laws that cannot work: each gives one error, which names the file and the line."""

import importlib.util
import itertools
import re
from collections.abc import Iterable

import pytest

import phipsi as pp
from phipsi.errors import LawError
from phipsi.simulation.diagram.connect_laws import block_diagram

ARM = pp.examples.planar_arm(3)

HEAD = """import itertools, math, random, time
import numpy as np
import phipsi as pp
count = 0
things = []
numbers = iter(range(100))
class Box: pass
box = Box()
box.n = 0
"""
FIRST = HEAD.count("\n") + 2  # the line of the function's name

# Bodies of  def bad(t, q, v, k=2.0):  x = q[0]  …  return -k * v. The first line is the wrong one,
# or the one that ends in  # !
BRANCHES = """
if x > 0: x = -x
y = x if x > 0 else -x
while x > 1: x = x - 1
y = max(x, 0)
y = min(q)
y = sorted(q)
y = x and v[0]
y = x or v[0]
y = not x
y = 0 < x < 1
assert x > 0
y = any(q > 0)
y = all(q > 0)
y = bool(x)
y = [a for a in q if a > 0]
y = list(filter(None, q))
y = x in [1, 2]
y = [1, 2, 3].index(x)
y = sum(1 for a in q if a < 0)
y = v if (q == 0).sum() else q
""".strip().splitlines()  # fmt: skip

NUMBERS = """
y = math.sin(x)
y = math.cos(x)
y = math.exp(x)
y = math.log(x)
y = math.sqrt(x)
y = math.atan2(x, v[0])
y = math.hypot(x, v[0])
y = math.floor(x)
y = math.isnan(x)
y = math.pow(x, 2)
y = math.fsum(q)
y = float(x)
y = int(x)
y = complex(x)
y = round(x)
y = range(x)
y = [1, 2, 3][x]
y = things[:x]
y = "ab" * x
y = x.item()
y = q.tolist()
y = np.array([x, x], dtype=float)
y = np.asarray(q, dtype=float)
y = np.float64(x)
y = np.zeros(x)
y = hex(x)
y = bytes(x)
y = len(str(x))
y = f"{x:.3f}"
y = f"{x!r}"
y = "%s" % x
y = repr(q)
print(q)
y = {x: 1}
y = q.std()
y = q.any()
y = hasattr(q, "argmax")
""".strip().splitlines()  # fmt: skip

UNKNOWN_FUNCTIONS = """
y = np.sort(q)
y = np.argsort(q)
y = np.argmax(q)
y = np.argmin(q)
y = np.nonzero(q)
y = np.unique(q)
y = np.cumprod(q)
y = np.nanprod(q)
y = np.median(q)
y = np.percentile(q, 50)
y = np.var(q)
y = np.std(q)
y = np.any(q)
y = np.all(q)
y = np.ediff1d(q)
y = np.gradient(q)
y = np.convolve(q, v)
y = np.correlate(q, v)
y = np.linalg.inv(np.outer(q, v))
y = np.linalg.solve(np.outer(q, v), q)
y = np.linalg.det(np.outer(q, v))
y = np.linalg.svd(np.outer(q, v))
y = np.linalg.eigvalsh(np.outer(q, v))
y = np.fft.fft(q)
y = np.searchsorted([0, 1], q)
y = np.histogram(q)
y = np.isnan(q)
y = np.isfinite(q)
y = np.log1p(q)
y = np.expm1(q)
y = np.cbrt(q)
y = np.arcsinh(q)
y = np.nextafter(q, v)
y = np.frexp(q)
y = np.signbit(q)
y = np.add.reduce(q)
y = np.add.accumulate(q)
y = np.multiply.outer(q, v)
y = np.sin(q, out=np.zeros(3))
y = np.sin(q, where=q > 0)
y = np.allclose(q, v)
y = np.array_equal(q, v)
y = np.take(q, [7])
y = np.choose([0, 1, 0], [q, v])
y = np.tensordot(q, v)
""".strip().splitlines()  # fmt: skip

SHAPES = """
y = q + np.ones(4)
y = q * np.ones((2, 2))
y = np.ones((2, 2)) @ q
y = q @ np.ones((2, 3))
y = x @ q
y = q @ 3.0
y = np.stack([q, x])
y = np.concatenate([q, x])
y = np.concatenate([q, np.ones((2, 2))])
y = np.cross(q[:2], v[:2])
y = q.reshape(2, 2)
y = q[3]
y = q[0, 0]
y = q[[0, 5]]
y = q.sum(axis=1)
y = np.where(q > 0, np.ones(2), 0)
y = np.einsum("ij,j->i", q, v)
y = np.einsum("i,i->i", q, v[:2])
y = np.linalg.norm(np.outer(q, v))
y = np.broadcast_to(q, (2, 2))
y = np.interp(q, [0, 1], [1, 2, 3])
y = pp.laws.table(q, [1, 0], [1, 2])
y = pp.laws.table(q, [0, 1], [1, 2], kind="quintic")
y = len(x)
y = [a for a in x]
a, b = q
y = q + [[1, 2], [3]]
""".strip().splitlines()  # fmt: skip

TYPES = """
y = q + "1"
y = q + None
y = q * {}
y = q - [None, 1, 2]
y = q + ["a", "b", "c"]
y = q + 1j
y = q + {1, 2, 3}
y = q + b"abc"
y = q + print
y = q + box
y = q + np.array(["a", "b", "c"])
y = q + np.array([1j, 0, 0])
y = q + pp
y = q + ...
y = np.sin("x") + q
y = np.where(q > 0, "a", "b")
y = np.clip(q, "a", "b")
y = q ** "2"
y = q.astype(int)
y = q["a"]
y = q[x]
y = q[q > 0]
y = things[0]
y = None + q
""".strip().splitlines()  # fmt: skip

NAMES = """
y = undefined
y = np.sinn(q)
y = q.sinn()
y = math.sinn(1)
y = pp.lawless
y = box.missing
y = {}["a"]
y = k.real_part
import no_such_module
y = sin(q)
y = 1 // 0
raise ValueError("my own")
y = int("x")
""".strip().splitlines()  # fmt: skip

NOT_FINITE = """
y = q + np.inf
y = q * np.nan
y = q + float("inf")
y = np.minimum(q, np.inf)
y = q + np.array([1, np.nan, 3])
y = q + np.log(0.0)
y = q / np.zeros(3) + 1 / np.zeros_like(q)
y = np.clip(q, -np.inf, 1)
y = np.where(q > 0, q, np.nan)
y = q + 1e308 * 10
y = pp.laws.table(q, [0, np.inf], [1, 2])
y = pp.laws.table(q, [0, 1], [1, np.nan])
y = np.zeros_like(q) ** -1
y = q - math.inf
""".strip().splitlines()  # fmt: skip

ASSIGNMENTS = """
q[0] = 1
v[:] = 0
q += 1
v[1:] *= 2
q[0] += x
y = q.T; y[0] = 1
y = 2 * q; z = y[:2]; y[0] = 1; w = z
y = 2 * q; z = y[:2]; z += 1; w = z + 1
y = np.zeros(3); y[0] = x
y = np.zeros(3); y[:] = q
y = [0, 0]; y[x] = 1
y = 2 * q; y[x] = 1
y = 2 * q; y[5] = 1
y = 2 * q; y[:2] = np.ones(3)
""".strip().splitlines()  # fmt: skip

IN_BODY = {
    "branch": BRANCHES, "number": NUMBERS, "function": UNKNOWN_FUNCTIONS, "shape": SHAPES,
    "type": TYPES, "name": NAMES, "not finite": NOT_FINITE, "assignment": ASSIGNMENTS,
}  # fmt: skip

# Whole functions; the error names the line of the definition.
DEFINITIONS = [
    "def bad(t, q, v):\n    return None",
    "def bad(t, q, v):\n    pass",
    "def bad(t, q, v):\n    return {}",
    "def bad(t, q, v):\n    return 'tau'",
    "def bad(t, q, v):\n    return {'tau': 'x'}",
    "def bad(t, q, v):\n    return {1: q}",
    "def bad(t, q, v):\n    return {'my torque': q}",
    "def bad(t, q, v):\n    return {'q': q}",
    "def bad(t, q, v):\n    return q[:2]",
    "def bad(t, q, v):\n    return np.outer(q, v)",
    "def bad(t, q, v):\n    return {'tau': q, 'energy': q}",
    "def bad(t, q, v):\n    return {'force': q}",
    "def bad(t, q, v):\n    return {'body_forces': q}",
    "def bad(t, q, v):\n    return lambda: q",
    "def bad(t, q, v):\n    return np.nan",
    "def bad(t, q, v):\n    return {'tau': [q, 1]}",
    "def bad(t, q, v):\n    yield q",
    "async def bad(t, q, v):\n    return q",
    "def bad(*args):\n    return args[1]",
    "def bad(**given):\n    return given['q']",
    "def bad(q, /):\n    return q",
    "def bad(q, gain):\n    return gain * q",
    "def bad(q, gain='high'):\n    return q",
    "def bad(q, gain=np.nan):\n    return q",
    "def bad(q, gain=None):\n    return q",
    "def bad(q, gain=[1, [2, 3]]):\n    return q",
    "def bad(q, gain=np.sin):\n    return q",
    "def bad(v):\n    global count\n    count += 1\n    return count * v",
    "def bad(v):\n    things.append(1)\n    return len(things) * v",
    "def bad(v, memory=3.0):\n    return next(numbers) * v",
    "def bad(v):\n    box.n += 1\n    return box.n * v",
    "def bad(v):\n    return random.random() * v",
    "def bad(v):\n    return np.random.default_rng().standard_normal() * v",
    "def bad(v):\n    return time.perf_counter() * v",
    "def bad(v):\n    box.n += 1\n    return {'tau': v} if box.n % 2 else {'tau': v, 'n': v}",
]
DECORATORS = [
    "@pp.law(states={'i': 0.0})\ndef bad(q, i):\n    return -q",
    "@pp.law(discrete={'n': 0.0})\ndef bad(q, n):\n    return {'tau': -q, 'm': n}",
    "@pp.law(states={'i': 0.0})\ndef bad(q, i):\n    return {'tau': -q, 'i': q}",
    "@pp.law(states={'i': 0.0})\ndef bad(q):\n    return -q",
    "@pp.law(states={'q': 0.0})\ndef bad(q):\n    return -q",
    "@pp.law(states=['i'])\ndef bad(q, i):\n    return -q",
    "@pp.law(states={'i': np.nan})\ndef bad(q, i):\n    return {'tau': -q, 'i': i}",
    "@pp.law(states={'i': 'x'})\ndef bad(q, i):\n    return {'tau': -q, 'i': i}",
    "@pp.law(states={'i': 0}, discrete={'i': 0})\ndef bad(q, i):\n    return {'tau': -q, 'i': i}",
    "@pp.law(rate=50.0, states={'i': 0.0})\ndef bad(q, i):\n    return {'tau': -q, 'i': i}",
    "@pp.law(rate=300.0)\ndef bad(q):\n    return -q",
    "@pp.law(rate=0.0)\ndef bad(q):\n    return -q",
    "@pp.law(rate='fast')\ndef bad(q):\n    return -q",
    "@pp.law(rate=2000.0)\ndef bad(q):\n    return -q",
    "@pp.law(delay=2)\ndef bad(q):\n    return -q",
    "@pp.law(rate=100.0, delay=-1)\ndef bad(q):\n    return -q",
    "@pp.law(rate=100.0, delay=0.5)\ndef bad(q):\n    return -q",
    "@pp.law(joints=['knee'])\ndef bad(q):\n    return -q",
    "@pp.law(joints=[])\ndef bad(q):\n    return -q",
    "@pp.law(joints=['joint1', 'joint1'])\ndef bad(q):\n    return -q",
    "@pp.law(joints=3)\ndef bad(q):\n    return -q",
    "@pp.law(name='my law')\ndef bad(q):\n    return -q",
    "@pp.law(at='hand')\ndef bad(q):\n    return {'force': q}",
    "@pp.law(at='tip')\ndef bad(q):\n    return {'force': q[:2]}",
    "@pp.law(at=['tip'])\ndef bad(q):\n    return {'wrench': q}",
    "@pp.law(at='world')\ndef bad(q):\n    return {'force': q}",
]
BOUND = [
    "bind(gian=1.0)", "bind(q=1.0)", "bind(gain='tip')", "bind(gain=None)", "bind(gain=np.nan)",
    "bind(gain=[1, [2]])", "bind(gain=np.sin)", "bind(gain={})", "bind(gain=1j)",
    "bind(gain=bad)", "bind(gain=[1.0, 2.0])", "bind(gain=pp.signals.position('hand'))",
    "bind(gain=pp.signals.output('other', 'y'))", "bind(gain=pp.signals.output('bad', 'tau'))",
    "bind(gain=pp.signals.previous('bad', 'y'))", "bind(gain=pp.signals.previous('bad', 'tau'))",
    "bind(gain=pp.signals.expression('vdot'))", "bind(gain=pp.operators.f_ext)",
    "bind(gain=pp.signals.expression('J'))", "on('knee').bind(gain=1.0)", "on(['joint1', 1])",
    "sampled(-1.0).bind(gain=1.0)", "sampled(700.0).bind(gain=1.0)", "named('a b')",
]  # fmt: skip

CASES: dict[str, tuple[str, int]] = {}
for kind, lines in IN_BODY.items():
    for line in lines:
        text = f"@pp.law\ndef bad(t, q, v, k=2.0):\n    x = q[0]\n    {line}\n    return -k * v"
        CASES[f"{kind}: {line}"] = f"{text}\n", FIRST + 2
for text in DEFINITIONS:
    CASES[f"definition: {text}"] = f"@pp.law\n{text}\n", FIRST - 1
for text in DECORATORS:
    CASES[f"decorator: {text}"] = f"{text}\n", FIRST - 1
for change in BOUND:
    text = "@pp.law\ndef bad(q, v, gain):\n    return -gain * v"
    CASES[f"bound: {change}"] = f"{text}\nbad = bad.{change}\n", FIRST - 1
NUMBER = itertools.count()


def test_names_of_numpy_are_suggested(tmp_path):
    @pp.law
    def bad(q):
        return tanh(q)  # noqa: F821  # pyright: ignore

    with pytest.raises(LawError, match=r"Did you mean np\.tanh\?"):
        block_diagram(ARM, [bad], 1e-3)


def test_cycles_name_their_members():
    @pp.law
    def a(y):
        return {"z": y}

    @pp.law
    def b(z):
        return {"y": z}

    laws = [a.bind(y=pp.signals.output("b", "y")), b.bind(z=pp.signals.output("a", "z"))]
    with pytest.raises(LawError, match=r"a → b → a read each other.*(?s:.)*previous\('a'"):
        block_diagram(ARM, laws, 1e-3)


def test_what_is_not_a_law():
    for bad in (3, "hold", pp.forces.JointDamper, None):
        with pytest.raises(LawError, match="not a law"):
            block_diagram(ARM, [bad], 1e-3)
    with pytest.raises(LawError, match="takes a function"):
        pp.law(3)  # type: ignore[arg-type]


def test_there_are_enough():
    assert len(CASES) >= 240


@pytest.mark.parametrize("name", CASES)
def test_every_bad_law_names_its_line(name, tmp_path):
    source, line = CASES[name]
    path = tmp_path / f"bad_law_{next(NUMBER)}.py"
    path.write_text(HEAD + source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.raises(LawError) as error:
        spec.loader.exec_module(module)
        block_diagram(ARM, [module.bad], 1e-3)
    text = str(error.value)
    places = {int(n) for n in re.findall(rf"{path.name}, line (\d+)", text)}
    assert places & {line, line + 1, line + 2}, text
    assert len(text) < 1500 and "Traceback" not in text, text


def test_an_entry_of_a_signal_is_taken_inside_the_law():
    height = pp.signals.position("tip")
    with pytest.raises(LawError, match=r"x\[2\]\n    height.bind\(x=pp.signals.position\('tip'\)"):
        height[2]
    with pytest.raises(TypeError):
        list(height)  # not a sequence
    assert not isinstance(height, Iterable)
