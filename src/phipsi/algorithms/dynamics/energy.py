"""Energy, momentum, mass centre and the centroidal momentum matrix."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics.rotor_reactions import reject_unseen
from phipsi.algorithms.kinematics.motions import VELOCITY_MAP, VELOCITY_MAP_DOT
from phipsi.backends.options import CallOptions, Calls
from phipsi.backends.program import Program
from phipsi.calculus.differentiation import diff
from phipsi.compiler import Form, evaluate, program_of
from phipsi.errors import InputError, ModelError
from phipsi.expressions.node import Expr
from phipsi.model.mechanisms import of_given_motion, of_modes, tree_of
from phipsi.model.model import Model
from phipsi.operators import I, Jr, K_e, M, V, cross, eta, to_com, total, v
from phipsi.spatial import skew

Array = NDArray[Any]

KINETIC_ENERGY = Fraction(1, 2) * (V.T @ M @ V + v.T @ Jr @ v)
MOMENTUM = total(M @ V)
MOMENTUM_MATRIX = total(M @ VELOCITY_MAP)
CENTROIDAL_MOMENTUM, CENTROIDAL_MOMENTUM_MATRIX = to_com @ MOMENTUM, to_com @ MOMENTUM_MATRIX
# d/dt of the body forces M φ* H* in world axes: their components change, and the body axes turn
MOMENTUM_MATRIX_DOT = total(M @ VELOCITY_MAP_DOT - cross(V).T @ M @ VELOCITY_MAP)
# The whole mechanism as one rigid body about the world's origin: the inertia [[·, m c~], [·, m I]]
WHOLE_INERTIA = total(M @ total(I).T)
ELASTIC_ENERGY = Fraction(1, 2) * (eta.T @ K_e @ eta)
_KINETIC_ENERGY, _MOMENTUM = Form(KINETIC_ENERGY), Form(MOMENTUM)
_ELASTIC = Form(ELASTIC_ENERGY)


@cache
def _momentum_matrix_dot_with_modes() -> Expr:
    return diff(MOMENTUM_MATRIX, "q", along=v, modes=True)


@of_modes
@of_given_motion
def kinetic_energy(
    model: Model, q: ArrayLike, v: ArrayLike, **options: Unpack[CallOptions]
) -> Array:
    """Kinetic energy, rotors included.

    ½ v* ℳ v = ½ V* M V + ½ v* Jr v, in J.

    **Arguments:** `q` (..., nq), `v` (..., nv). **Returns:** (...).
    **Cost:** one base-to-tip sweep, O(N). **Source:** MC sec. 6.

    >>> from phipsi import kinetic_energy
    >>> from phipsi.examples import planar_arm
    >>> float(kinetic_energy(planar_arm(1), [0.3], [3.0]))
    1.5
    """
    return evaluate(_KINETIC_ENERGY, kinetic_energy, model, (q, v), options)


@of_modes
@of_given_motion
def potential_energy(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Potential energy of gravity, 0 when the mass centre is at the world's origin.

    −m g · c, with m c from the whole inertia Σ φ(O, k) M(k) φ*(O, k) = total M total*. In J.

    **Arguments:** `q` (..., nq). **Returns:** (...).
    **Cost:** one base-to-tip sweep, O(N). **Source:** theory/open-chains 4.5.

    >>> from phipsi import potential_energy
    >>> from phipsi.examples import planar_arm
    >>> float(potential_energy(planar_arm(1), [1.5707963267948966]))
    4.905
    """
    program = program_of(WHOLE_INERTIA, model, "dense", potential_energy)
    calls = Calls(options)
    return calls.finish(-(_first_moment(calls(program, q)) @ program.model.gravity))


@of_modes
@of_given_motion
def elastic_energy(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Energy stored in the deformation of flexible bodies.

    ½ η* K_e η, with the modal coordinates η of all bodies. In J; 0 for rigid bodies.

    **Arguments:** `q` (..., nq). **Returns:** (...).
    **Cost:** one loop over the bodies, O(N). **Source:** theory/flexible-bodies 2.

    >>> import phipsi as pp
    >>> beam = pp.FlexibleInertia.beam(2.0, 1.5, EI=100.0, modes=0)
    >>> builder = pp.ModelBuilder()
    >>> boom = builder.add_body("boom", joint=pp.joints.Fixed(), inertia=beam)
    >>> cantilever = builder.build()
    >>> tip = beam.ports[0].moves[1]                 # deflection along y for unit coordinates
    >>> q = 0.01 * tip / (tip @ tip)
    >>> static = 3 * 100.0 / 2.0**3 * 0.01**2 / 2    # by a force on the tip: 3 EI/L³ times w²/2
    >>> bool(pp.elastic_energy(cantilever, q) >= static)
    True
    """
    return evaluate(_ELASTIC, elastic_energy, model, (q,), options)


@of_modes
@of_given_motion
def center_of_mass(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Mass centre of the whole mechanism.

    c from total M total* = [[·, m c~], [−m c~, m I]], in m from the world's origin, world axes.

    **Arguments:** `q` (..., nq). **Returns:** (..., 3). A model without mass raises `ModelError`.
    **Cost:** one base-to-tip sweep, O(N). **Source:** MM eq. 2.

    >>> from phipsi import center_of_mass
    >>> from phipsi.examples import planar_arm
    >>> center_of_mass(planar_arm(2), [0.0, 0.0])
    array([1., 0., 0.])
    """
    tree = tree_of(model, center_of_mass)
    mass = _mass(tree)
    if mass == 0:
        raise _no_mass(tree)
    calls = Calls(options)
    return calls.finish(_first_moment(calls(program_of(WHOLE_INERTIA, tree, "dense"), q)) / mass)


@of_modes
@of_given_motion
def center_of_mass_jacobian(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Joint rates → velocity of the mass centre, m/s in world axes.

    The linear rows of total M φ* H*, divided by the mass: momentum is mass times this velocity.

    **Arguments:** `q` (..., nq). **Returns:** (..., 3, nv). A model without mass raises
    `ModelError`. **Cost:** O(N) for each row. **Source:** theory/open-chains 6 and 12.

    >>> from phipsi import center_of_mass_jacobian
    >>> from phipsi.examples import planar_arm
    >>> center_of_mass_jacobian(planar_arm(2), [0.0, 0.0])[1]
    array([1.  , 0.25])
    """
    tree = tree_of(model, center_of_mass_jacobian)
    mass = _mass(tree)
    if mass == 0:
        raise _no_mass(tree)
    calls = Calls(options)
    return calls.finish(calls(program_of(MOMENTUM_MATRIX, tree, "dense"), q)[..., 3:, :] / mass)


@of_modes
@of_given_motion
def momentum(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    *,
    about: str = "origin",
    **options: Unpack[CallOptions],
) -> Array:
    """Total momentum of the bodies, with rotors behind gears and without armature.

    total M V about the world's origin; ``about="com"`` moves it to the mass centre. World axes,
    [angular (kg·m²/s), linear (kg·m/s)].

    **Arguments:** `q` (..., nq), `v` (..., nv); `about`, "origin" or "com". **Returns:** (..., 6).
    **Cost:** one base-to-tip sweep, O(N). **Source:** theory/open-chains 12.

    >>> from phipsi import momentum
    >>> from phipsi.examples import planar_arm
    >>> momentum(planar_arm(1), [0.0], [3.0]).round(12)
    array([0. , 0. , 1. , 0. , 1.5, 0. ])
    """
    if getattr(model, "rotors", ()):
        reject_unseen(model.model, "momentum")
    if about == "origin":
        return evaluate(_MOMENTUM, momentum, model, (q, v), options)
    if about != "com":
        raise InputError(f"about={about!r} is neither 'origin' nor 'com'")
    program = _about(CENTROIDAL_MOMENTUM, MOMENTUM, model, "apply", momentum)
    return program.evaluate((q, v), options)


@of_modes
@of_given_motion
def centroidal_momentum_matrix(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Joint rates → momentum about the mass centre.

    to_com total M φ* H*, momentum moved from the world's origin to the mass centre: times v it is
    ``momentum(…, about="com")``. World axes, [angular; linear], without armature.

    **Arguments:** `q` (..., nq). **Returns:** (..., 6, nv).
    **Cost:** O(N) for each of six rows. **Source:** theory/open-chains 6 and 12.

    >>> from phipsi import centroidal_momentum_matrix
    >>> from phipsi.examples import planar_arm
    >>> centroidal_momentum_matrix(planar_arm(1), [0.0])[:, 0].round(4)
    array([0.    , 0.    , 0.0833, 0.    , 0.5   , 0.    ])
    """
    if getattr(model, "rotors", ()):
        reject_unseen(model.model, "centroidal_momentum_matrix")
    pair = (CENTROIDAL_MOMENTUM_MATRIX, MOMENTUM_MATRIX)
    return _about(*pair, model, "dense", centroidal_momentum_matrix).evaluate((q,), options)


@of_modes
@of_given_motion
def centroidal_momentum_matrix_dot(
    model: Model, q: ArrayLike, v: ArrayLike, **options: Unpack[CallOptions]
) -> Array:
    """Time derivative of the centroidal momentum matrix.

    d/dt (total M φ* H*) = total (M d/dt(φ* H*) − cross(V)* M φ* H*), moved to the mass centre,
    which itself moves at the velocity total M V / m. With flexible bodies M changes too. World
    axes, [angular; linear].

    **Arguments:** `q` (..., nq), `v` (..., nv). **Returns:** (..., 6, nv).
    **Cost:** O(N) for each of six rows. **Source:** theory/open-chains 4.3.

    >>> from phipsi import centroidal_momentum_matrix_dot
    >>> from phipsi.examples import planar_arm
    >>> centroidal_momentum_matrix_dot(planar_arm(1), [0.0], [2.0])[:, 0].round(12) + 0
    array([ 0.,  0.,  0., -1.,  0.,  0.])
    """
    tree = tree_of(model, centroidal_momentum_matrix_dot)
    change = _momentum_matrix_dot_with_modes() if tree.has_more_rows else MOMENTUM_MATRIX_DOT
    parts = (MOMENTUM_MATRIX, change, WHOLE_INERTIA, MOMENTUM)
    reject_unseen(tree, "centroidal_momentum_matrix_dot")
    mass, calls = _mass(tree), Calls(options)
    matrix, rate, inertia, h = calls(program_of(parts, tree, "dense"), q, v)
    out = _about_com(rate, _com(tree, inertia))
    if mass:
        out[..., :3, :] -= skew(h[..., 3:] / mass) @ matrix[..., 3:, :]
    return calls.finish(out)


# ---- the mechanism as one rigid body -----------------------------------------------------------


def _about(
    com: Expr, origin: Expr, model: Model, mode: str, function: Callable[..., Any]
) -> Program:
    """The program about the mass centre; about the origin for a model without mass."""
    try:
        return model.cache[com, mode]
    except (KeyError, AttributeError):
        tree = tree_of(model, function)
        expr = com if _mass(tree) else origin
        return model.cached((com, mode), lambda: program_of(expr, tree, mode))


def _no_mass(model: Model) -> ModelError:
    return ModelError(
        "the model has no mass centre: none of its "
        f"{model.n_bodies} moving bodies has mass (bodies welded to the world do not count)."
    )


def _mass(model: Model) -> float:
    return float(model.inertia_matrices[:, 3, 3].sum())


def _first_moment(inertia: Array) -> Array:
    """The vector m c of [[·, m c~], [−m c~, m I]]."""
    return np.stack([inertia[..., 2, 4], inertia[..., 0, 5], inertia[..., 1, 3]], axis=-1)


def _com(model: Model, inertia: Array) -> Array:
    """Mass centre; the origin for a model without mass, whose momentum has no arm to depend on."""
    moment = _first_moment(inertia)
    mass = _mass(model)
    return moment / mass if mass else moment


def _about_com(columns: Array, com: Array) -> Array:
    """Momenta (..., 6, m) about the world's origin, moved to the mass centre."""
    out = columns.copy()
    out[..., :3, :] -= skew(com) @ columns[..., 3:, :]
    return out
