"""Calls in the graph of a step: programs of the algebra, and formulas of the joints' groups.

A configuration with quaternions has nq numbers, a change of it nv. In graphs, weights of q (the
derivative of a cost by it) have nq numbers, like q: those of a program, which are along the rates,
are lifted by w = T (T*T)⁻¹ g, T = ∂(q ∘ exp z)/∂z at z = 0, and lowered again by g = T* w.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, cast, final

import numpy as np

from phipsi.algorithms.forms import FORWARD_DYNAMICS, forward, loaded
from phipsi.backends.backend import has_machine_code
from phipsi.backends.native.native_backend import KernelSource
from phipsi.backends.program import Program
from phipsi.calculus.differentiation import gradient
from phipsi.compiler import compile
from phipsi.errors import InputError
from phipsi.expressions.node import Expr
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee, call
from phipsi.laws.graph import Array, Node, Shape
from phipsi.laws.law_derivatives import adjoints, tangents
from phipsi.laws.law_values import evaluate
from phipsi.laws.substitution import substituted
from phipsi.laws.trace import Traced, as_node
from phipsi.model.model import Model
from phipsi.motion.chart import chart_of
from phipsi.motion.inertia_nodes import weights_of_inertias
from phipsi.motion.lagrangian import RATES_OF_MOMENTA
from phipsi.motion.unrolled_programs import unrolled_program
from phipsi.operators import H, J, frame_pose, phi, pose
from phipsi.operators.catalogue import catalogue_leaf
from phipsi.operators.inputs import needs_of
from phipsi.operators.own_operators import operator
from phipsi.spatial.exponential import SERIES_BELOW, polynomial
from phipsi.spatial.groups import Group
from phipsi.sweeps.entries import cross

# ---- programs -----------------------------------------------------------------------------------

_DIFFERENTIABLE = ("q", "v", "vdot", "tau", "f_ext", "M")
"""Inputs of programs by which gradients are known."""
_INVERSES = (
    FORWARD_DYNAMICS,
    loaded(forward, external=True),
    RATES_OF_MOMENTA,
)
"""Forms ℳ⁻¹ (tau − …), whose derivatives by a given Jr are known too."""


def kernel_source(program: Program) -> KernelSource | None:
    """The same object for the same program; None for one without machine code."""
    if program.backend != "native":
        return None
    source, key = program.source.by_column or program.source, (KernelSource, program.request)
    return source.model.cached((*key, source.reproducible), lambda: KernelSource(source))


@final
class ProgramCall(Callee):
    """Expressions of the algebra on a model; the arguments of the call are the program's inputs.

    `allowed` are codes of failures.py that do not stop a trajectory; `options` those of `compile`.
    With `unrolls`, the program is one without inverses, which cannot fail: in small mechanisms it
    is written without loops.
    """

    def __init__(
        self,
        forms: Sequence[Expr],
        model: Model,
        *,
        allowed: tuple[int, ...] = (),
        unrolls: bool = False,
        **options: Any,
    ) -> None:
        self.forms, self.model, self.options = tuple(forms), model, options
        self.allowed, self.name = allowed, ", ".join(map(str, forms))
        if allowed:
            self.name += f" (allowed: {allowed})"
        native = kernel_source(self._program("native"))
        if native is None:
            fix = "" if has_machine_code() else ". That needs LLVM:  pip install llvmlite"
            raise InputError(
                f"there is no machine code for {self.name} of {model!r}, so that it cannot be part "
                f"of a compiled run{fix}"
            )
        self.native, self.natives = native, (native,)
        self._unrolled = None
        if unrolls:
            self._unrolled = unrolled_program(
                lambda: self._program("reference").source, native.program
            )
        if self._unrolled is not None:
            self.natives, self.name = (), f"{self.name} unrolled {self._unrolled.key}"
        self.inputs: tuple[str, ...] = tuple(self.native.program.inputs)
        self.shapes: tuple[Shape, ...] = tuple(self.native.output_shapes)
        self.key = (self.forms, id(model), repr(sorted(options.items())), allowed, unrolls)

    def _program(self, backend: str | None) -> Program:
        return compile(self.forms, self.model, backend=backend, **self.options)

    def arrays(self, *args: Array) -> Sequence[Array]:
        """One call of the program."""
        return self._program(None)(*args)

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """One call of its kernel, or of its code without loops."""
        if self._unrolled is None:
            return code.host.call_program(self.native, code, args, self.allowed)
        results = [code.area(max(1, math.prod(shape))) for shape in self.shapes]
        places = [x.base for x in (*map(code.stored, args), *results)]
        code.e.builder.call(self._unrolled.function(code.module, code.e), places)
        return results

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The vector–Jacobian products, by programs too."""
        given = dict(zip(self.inputs, args, strict=True))
        out: dict[str, Node] = {}
        modes = self.native.program.request.modes
        for form, mode, result, weight in zip(self.forms, modes, results, weights, strict=True):
            if weight is not None:
                _add_to(out, self._products(form, mode, given, result, weight))
        return [out.get(name) for name in self.inputs]

    def _products(
        self, form: Expr, mode: str, given: dict[str, Node], result: Node, weight: Node
    ) -> dict[str, Node]:
        if form in (pose, frame_pose):
            of_poses = self._of_bodies if form is pose else self._of_frames
            return {"q": lifted(self.model, given["q"], of_poses(given, result, weight))}
        if form.is_vector:
            out = self._along(form, given, weight)
        elif mode == "apply":
            out = self._of_product(form, given, weight)
        else:
            out = self._of_matrix(form, given, weight)
        if "q" in out:
            out["q"] = lifted(self.model, given["q"], out["q"])
        if "Jr" in given and form in _INVERSES:
            out["Jr"] = of_rotors(self.model, given["Jr"].shape, out["tau"], result)
        return out

    def _along(self, form: Expr, given: Mapping[str, Node], weight: Node) -> dict[str, Node]:
        """The derivative of weight · form by all inputs of this program."""
        names = [x for x in self.inputs if x in _DIFFERENTIABLE]
        options = {name: x for name, x in self.options.items() if name != "mode"}
        return products(form, self.model, names, given, weight, **options)

    def _of_matrix(self, form: Expr, given: Mapping[str, Node], weight: Node) -> dict[str, Node]:
        """The derivative of Σ Wᵢⱼ Xᵢⱼ = Σⱼ (W eⱼ)* X eⱼ, from the smaller side of X."""
        sides = [(form, weight), (form.T, ops.transpose(weight))] if len(weight.shape) == 2 else []
        known = ((X, W, _column_of(X)) for X, W in sides)
        fit = [(X, W, column) for X, W, column in known if column is not None]
        alone = ProgramCall((form,), self.model, **{**self.options, "mode": ("dense",)})
        if not fit or "Jr" in alone.inputs:
            raise InputError(_no_derivative(form))
        X, W, (name, u) = min(fit, key=lambda x: x[1].shape[1])
        rows, columns = W.shape
        out: dict[str, Node] = {}
        for j in range(columns):
            inputs = {**given, name: ops.constant(np.eye(columns)[j])}
            column = ops.pick(W, j + columns * np.arange(rows))
            _add_to(out, self._along(X @ u, inputs, column))
        return out

    def _of_product(self, form: Expr, given: Mapping[str, Node], weight: Node) -> dict[str, Node]:
        """The derivative of w* X x: that of w* X u at u = x, and X* w by x."""
        column = _column_of(form)
        if column is None or "same_operand" in self.options:
            raise InputError(_no_derivative(form))
        name, u = column
        options = {key: x for key, x in self.options.items() if key != "mode"}
        back = ProgramCall((form.T,), self.model, **options)
        place = {**given, "x": weight}
        (by_x,) = call(back, *(place[x] for x in back.inputs))
        return {**self._along(form @ u, {**given, name: given["x"]}, weight), "x": by_x}

    def _of_bodies(self, given: dict[str, Node], poses: Node, weight: Node) -> Node:
        """The gradient of poses X (n, 4, 4) along the rates: H φ f with the moments and forces.

        A body that moves by ξ in its own axes has δX = X [ξ]^; so the weights of ξ are those of
        R* W, for the rotation their skew part.
        """
        rows = []
        for R, bar in _entries_of_poses(poses, weight):
            S = cast(Any, R[:, :3].T) @ bar
            rows.append([S[2, 1] - S[1, 2], S[0, 2] - S[2, 0], S[1, 0] - S[0, 1]])
            rows[-1] += [S[0, 3], S[1, 3], S[2, 3]]
        return self._carried(H @ phi, given, rows)

    def _of_frames(self, given: dict[str, Node], poses: Node, weight: Node) -> Node:
        """The gradient of poses X (p, 4, 4) of points along the rates: J* f.

        A frame that moves by [ω; u] in world axes has δR = ω~ R and δp = u; so the moment is the
        sum of R eⱼ × W eⱼ.
        """
        rows = []
        for X, bar in _entries_of_poses(poses, weight):
            moments = [cross(X[:, j], bar[:, j]) for j in range(3)]
            rows.append([sum(x) for x in zip(*moments, strict=True)])
            rows[-1] += [bar[i, 3] for i in range(3)]
        return self._carried(J.T, given, rows, points=self.options["points"])

    def _carried(
        self, form: Expr, given: dict[str, Node], rows: Sequence[Any], **options: Any
    ) -> Node:
        """Efforts of forces, six entries in each row."""
        forces = as_node([x for row in rows for x in row])
        program = ProgramCall((form,), self.model, **options)
        place = {"q": given["q"], "x": ops.pick(forces, np.arange(forces.size).reshape(-1, 6))}
        return call(program, *(place[x] for x in program.inputs))[0]


def _no_derivative(form: Expr) -> str:
    return (
        f"the gradient needs the derivative of {form}, which a law reads, and that is not known. "
        "Let the law read a vector, such as the product with one"
    )


def _add_to(out: dict[str, Node], more: Mapping[str, Node]) -> None:
    for name, w in more.items():
        out[name] = w if name not in out else ops.apply("add", out[name], w)


_AS_MOTION = operator("as_motion", "forces -> motions", np.eye(6))
_VECTORS = {
    name: catalogue_leaf(name) for name in ("dvdot", "dv", "dq", "dtau", "f_ext", "f0", "Udot")
}
_COLUMNS = (*_VECTORS.items(), ("f_ext", _AS_MOTION @ _VECTORS["f_ext"]))
"""Vectors that can stand for a column, each with the name of its input."""


def _column_of(X: Expr) -> tuple[str, Expr] | None:
    """A vector that X can be applied to and that is not in it, with the name of its input."""
    used = needs_of(X)
    return next(((n, u) for n, u in _COLUMNS if u.gives is X.takes and n not in used), None)


def _entries_of_poses(poses: Node, weight: Node) -> list[tuple[Any, Any]]:
    """Of every pose and its weights, the first three rows."""
    X, W = (Traced(ops.pick(x, np.arange(x.size))) for x in (poses, weight))
    rows = np.arange(12).reshape(3, 4)
    return [(X[16 * k + rows], W[16 * k + rows]) for k in range(poses.shape[0])]


def products(
    form: Expr,
    model: Model,
    names: Sequence[str],
    inputs: Mapping[str, Node],
    weight: Node,
    **options: Any,
) -> dict[str, Node]:
    """The derivative of weight · form by inputs, by their names; that of q along the rates.

    `inputs` are those of the form; `options` those of `compile`.
    """
    gradients = tuple(gradient(form, "inertia" if x == "M" else x) for x in names)
    callee = ProgramCall(gradients, model, **options, same_operand=True)
    place, shapes = {**inputs, "x": weight}, callee.native.program.input_shapes
    args = [ops.pick(y, np.arange(y.size).reshape(shapes[x])) for x in callee.inputs
            for y in (place[x],)]  # fmt: skip
    out = dict(zip(names, call(callee, *args), strict=True))
    if "M" in out:
        out["M"] = weights_of_inertias(out["M"], model.n_bodies)
    return out


def of_rotors(model: Model, shape: Shape, by_tau: Node, rates: Node) -> Node:
    """The weights of Jr: a change of it acts on rates y as the efforts −δJr y."""
    rows, columns, places = [], [], []
    for k, at in enumerate(model.v_slices):
        for i in range(at.start, at.stop):
            for j in range(at.start, at.stop):
                rows.append(i)
                columns.append(j)
                places.append((k * shape[1] + i - at.start) * shape[2] + j - at.start)
    product = ops.apply("mul", ops.pick(by_tau, rows), ops.pick(rates, columns))
    return ops.scatter(ops.apply("neg", product), np.array(places), shape)


# ---- formulas of the groups ----------------------------------------------------------------------


class Formula(NamedTuple):
    """A formula of every group: a name, the layout of arguments and results, "q", "v" or "one"."""

    name: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    compute: Callable[..., Sequence[Any]]


def _move(group: Group, q: Any, z: Any, ops_: Any) -> Sequence[Any]:
    return (group.move(q, z, ops_),)


def _rate(group: Group, z: Any, v: Any, ops_: Any) -> Sequence[Any]:
    return (group.rate(z, v, ops_),)


def _euler(group: Group, q: Any, v: Any, vdot: Any, h: Any, ops_: Any) -> Sequence[Any]:
    return group.euler(q, v, vdot, h[0], ops_)


def _pushed(group: Group, v: Any, vdot: Any, h: Any, ops_: Any) -> Sequence[Any]:
    return (group.pushed(v, vdot, h[0]),)


def _middle(group: Group, q: Any, w: Any, h: Any, ops_: Any) -> Sequence[Any]:
    return (group.middle(q, w, h[0], ops_),)


def _end(group: Group, q: Any, w: Any, h: Any, ops_: Any) -> Sequence[Any]:
    return (group.end(q, w, h[0], ops_),)


def _wanted(group: Group, w: Any, h: Any, p: Any, force: Any, now: Any, ops_: Any) -> Sequence[Any]:
    return (group.wanted(w, h[0], p, force, now, ops_),)


def _after(group: Group, q: Any, w: Any, h: Any, p: Any, force: Any, ops_: Any) -> Sequence[Any]:
    return (group.after(q, w, h[0], p, force, ops_),)


def _unit(group: Group, q: Any, ops_: Any) -> Sequence[Any]:
    if group.rotation is None or group.rotation.size != 4:
        return (q,)
    length = ops_.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    return ((*(x / length for x in q[:4]), *q[4:]),)


MOVE = Formula("move", ("q", "v"), ("q",), _move)
RATE = Formula("rate", ("v", "v"), ("v",), _rate)
EULER = Formula("euler", ("q", "v", "v", "one"), ("q", "v"), _euler)
PUSHED = Formula("pushed", ("v", "v", "one"), ("v",), _pushed)
MIDDLE = Formula("middle", ("q", "v", "one"), ("q",), _middle)
END = Formula("end", ("q", "v", "one"), ("q",), _end)
WANTED = Formula("wanted", ("v", "one", "v", "v", "v"), ("v",), _wanted)
AFTER = Formula("after", ("q", "v", "one", "v", "v"), ("v",), _after)
UNIT = Formula("unit", ("q",), ("q",), _unit)


# cos √s
_COSINE_OF_ROOT = tuple((-1) ** k / math.factorial(2 * k) for k in range(10))


@final
class _TracedNumbers:
    """What the formulas of the groups need, for graphs."""

    sin, sqrt = np.sin, np.sqrt

    def cos(self, x: Any) -> Any:
        """The cosine of a root has a derivative at zero, but the root has not."""
        if x.node.operation.name != "sqrt":
            return np.cos(x)
        (s,) = x.node.args
        return self.pick(Traced(s), _COSINE_OF_ROOT, lambda far, _: np.cos(np.sqrt(far)))

    def pick(self, s: Any, series: tuple[float, ...], closed: Callable[[Any, Any], Any]) -> Any:
        small = s < SERIES_BELOW
        near, far = np.where(small, s, 0.0), np.where(small, 1.0, s)
        return np.where(small, polynomial(series, near), closed(far, self))


@dataclass(frozen=True)
class _Graph:
    """A formula of one group as a graph: inputs, each with its name, and results."""

    inputs: tuple[tuple[Node, ...], ...]
    results: tuple[tuple[Node, ...], ...]


def _size(group: Group, kind: str) -> int:
    return {"q": group.nq, "v": group.nv, "one": 1}[kind]


@cache
def _graph(formula: Formula, group: Group) -> _Graph:
    inputs = tuple(
        tuple(ops.given(f"{i}.{j}", ()) for j in range(_size(group, kind)))
        for i, kind in enumerate(formula.takes)
    )
    numbers = [[Traced(x) for x in part] for part in inputs]
    found = formula.compute(group, *numbers, _TracedNumbers())
    return _Graph(inputs, tuple(tuple(as_node(x) for x in part) for part in found))


@cache
def _pulled_graph(formula: Formula, group: Group) -> _Graph:
    """Arguments, then weights of the results → weights of the arguments."""
    graph = _graph(formula, group)
    first = len(graph.inputs)
    weights = tuple(
        tuple(ops.given(f"{first + i}.{j}", ()) for j in range(len(part)))
        for i, part in enumerate(graph.results)
    )
    flat = [x for part in graph.results for x in part]
    bars = adjoints(flat, [w for part in weights for w in part], sum(graph.inputs, ()))
    nothing, rest = ops.constant(0.0), iter(bars)
    out = tuple(tuple(next(rest) or nothing for _ in part) for part in graph.inputs)
    return _Graph((*graph.inputs, *weights), out)


@cache
def _tangent_graph(formula: Formula, group: Group) -> _Graph:
    """(q, v) → T v, (q, g) → T (T*T)⁻¹ g, or (q, w) → T* w; the columns of T are orthogonal."""
    graph = _graph(MOVE, group)
    q, z = graph.inputs
    at_zero = {x: ops.constant(0.0) for x in z}
    columns = []
    for along in z:
        change = tangents(graph.results[0], {along: ops.constant(1.0)})
        columns.append(substituted([x or ops.constant(0.0) for x in change], at_zero))
    given = tuple(ops.given(f"1.{j}", ()) for j in range(_size(group, formula.takes[1])))
    g: list[Any] = [Traced(x) for x in given]
    T: list[list[Any]] = [[Traced(x) for x in column] for column in columns]
    if formula is LIFT:
        g = [x / sum(t * t for t in column) for x, column in zip(g, T, strict=True)]
    if formula is LOWER:
        out = [sum(t * w for t, w in zip(column, g, strict=True)) for column in T]
    else:
        out = [sum(T[j][i] * g[j] for j in range(group.nv)) for i in range(group.nq)]
    return _Graph((q, given), (tuple(as_node(x) for x in out),))


LIFT = Formula("lift", ("q", "v"), ("q",), lambda *_: ())
LOWER = Formula("lower", ("q", "q"), ("v",), lambda *_: ())
VELOCITY = Formula("velocity", ("q", "v"), ("q",), lambda *_: ())
_BY_TANGENTS = (LIFT, LOWER, VELOCITY)


@final
class GroupCall(Callee):
    """A formula at every joint of a model; `pulls`, the weights of its arguments instead."""

    def __init__(self, formula: Formula, model: Model, *, pulls: bool = False) -> None:
        self.formula, self.model, self.pulls = formula, model, pulls
        self.name = f"{formula.name} pulled" if pulls else formula.name
        self._takes = (*formula.takes, *formula.gives) if pulls else formula.takes
        self._gives = tuple(x for x in formula.takes if x != "one") if pulls else formula.gives
        sizes = {"q": model.nq, "v": model.nv}
        self.shapes = tuple((sizes[x],) for x in self._gives)
        self.key = (formula.name, pulls, id(model))

    def _graph(self, group: Group) -> _Graph:
        if self.formula in _BY_TANGENTS:
            return _tangent_graph(self.formula, group)
        if not self.pulls:
            return _graph(self.formula, group)
        found = _pulled_graph(self.formula, group)
        kept = [i for i, x in enumerate(self.formula.takes) if x != "one"]
        return _Graph(found.inputs, tuple(found.results[i] for i in kept))

    def arrays(self, *args: Array) -> Sequence[Array]:
        """Joint by joint."""
        model = self.model
        arrays = [np.asarray(a)[..., None] if k == "one" else np.asarray(a)
                  for a, k in zip(args, self._takes, strict=True)]  # fmt: skip
        batch = np.broadcast_shapes(*(a.shape[:-1] for a in arrays))
        out = [np.empty((*batch, *shape)) for shape in self.shapes]
        for joint, at_q, at_v in zip(model.joints, model.q_slices, model.v_slices, strict=True):
            for group, i, j in joint.parts(at_q.start, at_v.start):
                at = {"q": slice(i, i + group.nq), "v": slice(j, j + group.nv), "one": slice(0, 1)}
                graph = self._graph(group)
                parts = [a[..., at[k]] for a, k in zip(arrays, self._takes, strict=True)]
                values = {
                    x.data[0]: np.broadcast_to(a[..., n], batch)
                    for a, part in zip(parts, graph.inputs, strict=True)
                    for n, x in enumerate(part)
                }
                for array, kind, part in zip(out, self._gives, graph.results, strict=True):
                    if part:
                        found = evaluate(part, values)
                        array[..., at[kind]] = np.stack(np.broadcast_arrays(*found), axis=-1)
        return out

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """A loop over the joints."""
        direct = None if self.pulls or self.formula in _BY_TANGENTS else self.formula.compute
        kinds = self._takes, self._gives
        return code.host.call_joints(code, args, kinds, self.shapes, self._graph, direct)

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The same call with weights."""
        if self.pulls or self.formula in _BY_TANGENTS:
            raise NotImplementedError("second derivatives of a step")
        zeros = [ops.constant(np.zeros(s)) for s in self.shapes]
        bars = [z if w is None else w for z, w in zip(zeros, weights, strict=True)]
        found = iter(call(GroupCall(self.formula, self.model, pulls=True), *args, *bars))
        return [None if kind == "one" else next(found) for kind in self.formula.takes]


def is_flat(model: Model) -> bool:
    """Whether q̇ = v for every joint, so that the formulas of the groups are plain arithmetic."""
    return chart_of(model).is_flat


def moved(model: Model, q: Node, z: Node) -> Node:
    """q ∘ exp(z)."""
    if is_flat(model):
        return ops.apply("add", q, z)
    return call(GroupCall(MOVE, model), q, z)[0]


def unit_places(model: Model, q: Node) -> Node:
    """The same configuration with quaternions of length 1."""
    return q if is_flat(model) else call(GroupCall(UNIT, model), q)[0]


def velocity(model: Model, q: Node, v: Node) -> Node:
    """q̇ = N(q) v (nq,), for quaternions of length 1."""
    return v if is_flat(model) else call(GroupCall(VELOCITY, model), q, v)[0]


def rate_of(model: Model, z: Node, v: Node) -> Node:
    """ż = dexp⁻¹(z) v."""
    return v if is_flat(model) else call(GroupCall(RATE, model), z, v)[0]


def euler_step(model: Model, q: Node, v: Node, vdot: Node, h: Node) -> tuple[Node, Node]:
    """q⁺ and v⁺ of a semi-implicit step."""
    if is_flat(model):
        new = ops.apply("add", v, ops.apply("mul", h, vdot))
        return ops.apply("add", q, ops.apply("mul", h, new)), new
    q1, v1 = call(GroupCall(EULER, model), q, v, vdot, h)
    return q1, v1


def pushed_rates(model: Model, v: Node, vdot: Node, h: Node) -> Node:
    """The rates after a semi-implicit step in the axes at its start; contacts act on these."""
    if is_flat(model):
        return _along(v, h, vdot)
    return call(GroupCall(PUSHED, model), v, vdot, h)[0]


def _along(x: Node, h: Node, rate: Node) -> Node:
    return ops.apply("add", x, ops.apply("mul", h, rate))


def _half(h: Node) -> Node:
    return ops.apply("mul", h, ops.constant(0.5))


def middle_of(model: Model, q: Node, w: Node, h: Node) -> Node:
    """The configuration at the middle of a variational step with the rates w."""
    if is_flat(model):
        return _along(q, _half(h), w)
    return call(GroupCall(MIDDLE, model), q, w, h)[0]


def end_of(model: Model, q: Node, w: Node, h: Node) -> Node:
    """The configuration at its end."""
    return _along(q, h, w) if is_flat(model) else call(GroupCall(END, model), q, w, h)[0]


def wanted_momenta(model: Model, w: Node, h: Node, p: Node, force: Node, now: Node) -> Node:
    """The momenta at its middle that follow from p; `now` are those of w."""
    if is_flat(model):
        return _along(p, _half(h), force)
    return call(GroupCall(WANTED, model), w, h, p, force, now)[0]


def momenta_after(model: Model, q: Node, w: Node, h: Node, p: Node, force: Node) -> Node:
    """The momenta at its end."""
    if is_flat(model):
        return _along(p, h, force)
    return call(GroupCall(AFTER, model), q, w, h, p, force)[0]


def lifted(model: Model, q: Node, g: Node) -> Node:
    """Weights (nq,) of q from those (nv,) along the rates."""
    return g if is_flat(model) else call(GroupCall(LIFT, model), q, g)[0]


def lower(model: Model, q: Array, w: Array) -> Sequence[Array]:
    """Weights (..., nv) along the rates from those (..., nq) of q."""
    return (w,) if is_flat(model) else GroupCall(LOWER, model).arrays(q, w)
