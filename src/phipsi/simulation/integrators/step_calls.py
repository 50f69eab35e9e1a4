"""Programs of the algebra as calls in the graph of a step, and their derivatives.

At the end, inertias of bodies in graphs: M from inertial parameters, and weights of one from the
other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast, final

import numpy as np

from phipsi import contact
from phipsi.algorithms import forward, hybrid_form, linearly_implicit, loaded
from phipsi.core import calculus
from phipsi.core.arrays import (
    Array,
    Node,
    Primitive,
    Shape,
    Tracer,
    as_node,
    call,
    law_operations as ops,
)
from phipsi.core.backends import Program, backend_of, has_machine_code
from phipsi.core.compiler import build, compile
from phipsi.core.expressions import Expr
from phipsi.core.model import Model
from phipsi.core.operators import (
    H,
    J,
    Lambda,
    catalogue_leaf,
    frame_pose,
    mass_matrix,
    needs_of,
    phi,
    pose,
)
from phipsi.core.sweeps import cross
from phipsi.errors import InputError
from phipsi.laws import INERTIA
from phipsi.native import KernelSource
from phipsi.simulation.integrators.group_calls import lifted
from phipsi.simulation.integrators.lagrangian import RATES_OF_MOMENTA
from phipsi.simulation.kinematic_loops.unrolled_programs import unrolled_program
from phipsi.user_operators import operator

_DIFFERENTIABLE = ("q", "v", "vdot", "tau", "f_ext", "M")
"""Inputs of programs by which gradients are known."""
_INVERSES = (
    *(
        loaded(f, external=x)
        for f in (forward, linearly_implicit, hybrid_form)
        for x in (False, True)
    ),
    RATES_OF_MOMENTA,
)
"""Forms ℳ⁻¹ (tau − …), whose derivatives by a given Jr are known too; also where ℳ has more terms,
or where only the rows of some joints are solved."""
_REACH = mass_matrix.inv @ J.T
_AROUND = {
    mass_matrix.inv: (mass_matrix.inv, mass_matrix.inv),
    _REACH: (mass_matrix.inv, _REACH),
    Lambda: (_REACH, _REACH),
}
"""Forms L ℳ⁻¹ R, of which that is known too, with ℳ⁻¹ L* and ℳ⁻¹ R."""


def kernel_source(program: Program, inspects: tuple[str, ...] | None = None) -> KernelSource | None:
    """The same object for the same program; None for one without machine code."""
    if program.backend != "native":
        return None
    source, key = program.source.by_column or program.source, (KernelSource, program.request)
    return source.model.cached(
        (*key, source.reproducible, inspects), lambda: KernelSource(source, inspects=inspects)
    )


def reproducible_source(native: KernelSource) -> KernelSource:
    """The same program by the plan that every machine chooses, and for any processor."""
    request, model, inspects = native.program.request, native.program.model, native.unit.inspects

    def once() -> KernelSource:
        program = build(request, model, backend_of("native"), reproducible=True).source
        return KernelSource(program, inspects=inspects)

    return model.cached((KernelSource, request, True, inspects), once)


@final
class ProgramCall(Primitive):
    """Expressions of the algebra on a model; the arguments of the call are the program's inputs.

    `allowed` are codes of errors_from_status.py that do not stop a trajectory; `options` those of
    `compile`. With `inspects`, only inputs of these names are looked at, and no results, for
    numbers that are not finite and matrices that are not symmetric: in a step whose states these
    end in. With `unrolls`, the program is one without inverses, which cannot fail: in small
    mechanisms it is written without loops.
    """

    def __init__(
        self,
        forms: Sequence[Expr],
        model: Model,
        *,
        allowed: tuple[int, ...] = (),
        unrolls: bool = False,
        inspects: tuple[str, ...] | None = None,
        **options: Any,
    ) -> None:
        self.forms, self.model, self.options = tuple(forms), model, options
        self.inspects = inspects
        self.allowed, self.name = allowed, ", ".join(map(str, forms))
        if allowed:
            self.name += f" (allowed: {allowed})"
        native = kernel_source(self._program("native"), inspects)
        if native is None:
            fix = "" if has_machine_code() else ". That needs LLVM:  pip install llvmlite"
            raise InputError(
                f"there is no machine code for {self.name} of {model!r}, so a compiled step "
                f"cannot contain it{fix}"
            )
        self.native, self.natives = native, (native,)
        self._unrolled = None
        if unrolls:
            self._unrolled = unrolled_program(
                lambda: self._program("reference").source, native.program
            )
        if self._unrolled is not None:
            self.natives, self.name = (), f"{self.name} unrolled {self._unrolled.key}"
        self.any_width = self._unrolled is None
        self.inputs: tuple[str, ...] = tuple(self.native.program.inputs)
        self.shapes: tuple[Shape, ...] = tuple(self.native.output_shapes)
        ways = repr(sorted(options.items())), allowed, unrolls, inspects
        self.key = (self.forms, id(model), *ways)

    def _program(self, backend: str | None) -> Program:
        return compile(self.forms, self.model, backend=backend, **self.options)

    def of(self, inputs: Mapping[str, Node]) -> tuple[Node, ...]:
        """The results, from inputs by name, of which those of the program are taken."""
        return call(self, *(inputs[name] for name in self.inputs))

    def arrays(self, *args: Array) -> Sequence[Array]:
        """One call of the program."""
        return self._program(None)(*args)

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """One call of its kernel, or of its code without loops."""
        if self._unrolled is None:
            return code.host.call_program(self.native, code, args, self.allowed)
        results = [code.area(max(1, math.prod(shape))) for shape in self.shapes]
        places = [x.base for x in (*map(code.stored, args), *results)]
        self._unrolled.routine(code).call(code.e, places)
        return results

    def vjp(
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
        elif "Jr" in given and form in _AROUND:
            out["Jr"] = self._of_rotors(form, mode, given, result, weight)
        return out

    def _of_rotors(self, form: Expr, mode: str, given: Any, result: Node, weight: Node) -> Node:
        """The weights of Jr: −∑ (ℳ⁻¹ L* w) (ℳ⁻¹ R)*, a change acting as efforts −δJr ℳ⁻¹ R."""
        back, reach = _AROUND[form]
        shared = {name: x for name, x in self.options.items() if name in ("inputs", "points")}

        def of(X: Expr) -> Node:
            if mode == "dense" and X is form:
                return result
            program = ProgramCall((X,), self.model, mode=(mode,), **shared)
            return program.of({**given, "x": weight})[0]

        if mode == "apply":
            return of_rotors(self.model, given["Jr"].shape, of(back), result)
        total = ops.matmul(ops.matmul(of(back), weight), ops.transpose(of(reach)))
        return of_rotors(self.model, given["Jr"].shape, total)

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
        if not fit or ("Jr" in alone.inputs and form not in _AROUND):
            raise InputError(_no_derivative(form))
        X, W, (name, u) = min(fit, key=lambda x: x[1].shape[1])
        rows, columns = W.shape
        out: dict[str, Node] = {}
        for j in range(columns):
            inputs = {**given, name: ops.constant(np.eye(columns)[j])}
            column = ops.gather(W, j + columns * np.arange(rows))
            _add_to(out, self._along(X @ u, inputs, column))
        return out

    def _of_product(self, form: Expr, given: Mapping[str, Node], weight: Node) -> dict[str, Node]:
        """The derivative of w* X x: that of w* X u at u = x, and X* w by x."""
        column = _column_of(form)
        if column is None or "same_operand" in self.options:
            raise InputError(_no_derivative(form))
        name, u = column
        options = {key: x for key, x in self.options.items() if key != "mode"}
        (by_x,) = ProgramCall((form.T,), self.model, **options).of({**given, "x": weight})
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
        self, form: Expr, given: dict[str, Node], rows: Sequence[Sequence[Array]], **options: Any
    ) -> Node:
        """Efforts of forces, six entries in each row."""
        forces = as_node([x for row in rows for x in row])
        place = {"q": given["q"], "x": ops.gather(forces, np.arange(forces.size).reshape(-1, 6))}
        return ProgramCall((form,), self.model, **options).of(place)[0]


def _no_derivative(form: Expr) -> str:
    return (
        f"the gradient needs the derivative of {form}, which a law reads, and which is not "
        "implemented. Let the law read a vector, such as the product with one"
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
    X, W = (Tracer(ops.gather(x, np.arange(x.size))) for x in (poses, weight))
    rows = np.arange(12).reshape(3, 4)
    return [(X[16 * k + rows], W[16 * k + rows]) for k in range(poses.shape[0])]


def products(
    form: Expr,
    model: Model,
    names: Sequence[str],
    known: Mapping[str, Node],
    weight: Node,
    **options: Any,
) -> dict[str, Node]:
    """The derivative of weight · form by inputs, by their names; that of q along the rates.

    `known` are the inputs of the form, by name; `options` those of `compile`.
    """
    modal, words = model.has_more_rows, ("inertia" if x == "M" else x for x in names)
    gradients = tuple(calculus.differentiation.gradient(form, x, modal) for x in words)
    callee = ProgramCall(gradients, model, **options, same_operand=True)
    place, shapes = {**known, "x": weight}, callee.native.program.input_shapes
    shaped = {
        x: ops.gather(place[x], np.arange(place[x].size).reshape(shapes[x])) for x in callee.inputs
    }
    out = dict(zip(names, callee.of(shaped), strict=True))
    if "M" in out:
        out["M"] = weights_of_inertias(out["M"], model.n_bodies)
    return out


def of_rotors(model: Model, shape: Shape, by_tau: Node, rates: Node | None = None) -> Node:
    """The weights of Jr: a change of it acts on rates y as the efforts −δJr y.

    Of weights by_tau (nv,) of efforts and rates (nv,), or of a sum of such products (nv, nv).
    """
    rows, columns, places = [], [], []
    for k, at in enumerate(model.v_slices):
        for i in range(at.start, at.stop):
            for j in range(at.start, at.stop):
                rows.append(i)
                columns.append(j)
                places.append((k * shape[1] + i - at.start) * shape[2] + j - at.start)
    if rates is None:
        product = ops.gather(by_tau, np.array(rows) * model.nv + np.array(columns))
    else:
        product = ops.apply("mul", ops.gather(by_tau, rows), ops.gather(rates, columns))
    return ops.scatter_add(ops.apply("neg", product), np.array(places), shape)


# ---- inertias of bodies --------------------------------------------------------------------------

# M = [J, m ĉ; −m ĉ, m 1] in the order of `inertial_parameters`: which of the ten stands at every
# entry, 10 for none, and its sign
_NONE = 10
_WHICH = np.array([
    [4, 7, 8, _NONE, 3, 2], [7, 5, 9, 3, _NONE, 1], [8, 9, 6, 2, 1, _NONE],
    [_NONE, 3, 2, 0, _NONE, _NONE], [3, _NONE, 1, _NONE, 0, _NONE], [2, 1, _NONE, _NONE, _NONE, 0],
])  # fmt: skip
_SIGN = np.ones((6, 6))
_SIGN[0, 4] = _SIGN[1, 5] = _SIGN[2, 3] = _SIGN[3, 2] = _SIGN[4, 0] = _SIGN[5, 1] = -1.0
_SIGN[_WHICH == _NONE] = 0.0
_TIMES = np.bincount(_WHICH.ravel(), minlength=11)[:10]  # how often each of the ten occurs


def column_of(name: str) -> str:
    """Where a quantity is a column of a per-trajectory array, as a sentence; "" if it is none."""
    columns = contact.contact_rows.COLUMNS
    if name in ("mass", "masses"):
        return (
            f"Masses are column 0 of {INERTIA!r} (bodies, 10), with moments beside them. For "
            "another mass scale all ten columns"
        )
    if name in ("armature", "armatures", "rotor_inertia"):
        return (
            "Armatures and rotor inertias are the diagonals of 'Jr' (bodies, k, k), with k the "
            "largest number of velocities of a joint; for joints with one velocity pass  "
            "parameters={'Jr': armature[..., None, None]}"
        )
    if name in columns:
        array = contact.contact_rows.MATERIALS
        return f"{name} is column {columns.index(name)} of {array!r} (slots, {len(columns)})"
    return ""


def check_per_trajectory(names: Sequence[str]) -> None:
    """Reject columns of quantities, and inertias that are listed twice."""
    for name in names:
        if where := column_of(name):
            more = (
                f":\n    per_trajectory=({INERTIA!r},)\n    parameters={{{INERTIA!r}: factor * "
                "pp.identification.inertial_parameters(model).reshape(-1, 10)}"
            )
            if "'Jr'" in where:
                more = ":\n    per_trajectory=('Jr',)"
            elif INERTIA not in where:
                more = ", which differs between trajectories without per_trajectory="
            raise InputError(f"per_trajectory={[*names]!r}: there is no {name!r}. {where}{more}")
    if INERTIA in names and "M" in names:
        raise InputError(
            f"per_trajectory={[*names]!r}: the inertias of bodies are listed twice, "
            f"as {INERTIA!r} and as 'M'. Remove one of them"
        )


def inertias(parameters: Node, n: int) -> Node:
    """M (n, 6, 6) of the inertial parameters (n, 10)."""
    places = 10 * np.arange(n)[:, None, None] + np.where(_WHICH == _NONE, 0, _WHICH)
    signs = np.broadcast_to(_SIGN, (n, 6, 6))
    return ops.apply("mul", ops.gather(parameters, places), ops.constant(signs))


def weights_of_inertias(weights: Node, n: int) -> Node:
    """Weights (n, 6, 6) of M whose sums are those (n, 10) of the inertial parameters."""
    shares = np.append(1.0 / _TIMES, 0.0)[_WHICH] * _SIGN
    places = 10 * np.arange(n)[:, None, None] + np.where(_WHICH == _NONE, 0, _WHICH)
    flat = ops.gather(weights, np.arange(10 * n).reshape(n, 10))
    return ops.apply(
        "mul", ops.gather(flat, places), ops.constant(np.broadcast_to(shares, (n, 6, 6)))
    )
