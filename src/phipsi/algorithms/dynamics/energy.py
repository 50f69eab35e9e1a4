"""Energy, momentum and mass centre."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.backends import CallOptions, Calls, Program
from phipsi.core.compiler import NamedForm, evaluate, program_of
from phipsi.core.expressions import Expr
from phipsi.core.model import UNAFFECTED, Model, supports, tree_of
from phipsi.core.operators import I, Jr, K_e, M, V, eta, to_com, total, v
from phipsi.errors import ModelError, one_of

Array = NDArray[Any]

KINETIC_ENERGY = Fraction(1, 2) * (V.T @ M @ V + v.T @ Jr @ v)
MOMENTUM = total(M @ V)
CENTROIDAL_MOMENTUM = to_com @ MOMENTUM
# The whole mechanism as one rigid body about the world's origin: the inertia [[·, m c~], [·, m I]]
WHOLE_INERTIA = total(M @ total(I).T)
ELASTIC_ENERGY = Fraction(1, 2) * (eta.T @ K_e @ eta)
_KINETIC_ENERGY, _MOMENTUM = NamedForm(KINETIC_ENERGY), NamedForm(MOMENTUM)
_ELASTIC = NamedForm(ELASTIC_ENERGY)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
def kinetic_energy(
    model: Model, q: ArrayLike, v: ArrayLike, **options: Unpack[CallOptions]
) -> Array:
    """Kinetic energy in J, rotors and armature included.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (...)
        The energy, J.

    Notes
    -----
    ½ v* ℳ v = ½ V* M V + ½ v* Jr v. **Cost:** one base-to-tip sweep, O(N). **Source:** MC sec. 6.

    Examples
    --------
    >>> from phipsi import kinetic_energy
    >>> from phipsi.examples import planar_arm
    >>> float(kinetic_energy(planar_arm(1), [0.3], [3.0]))
    1.5
    """
    return evaluate(_KINETIC_ENERGY, kinetic_energy, model, (q, v), options)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
def potential_energy(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Potential energy of gravity in J; 0 when the center of mass is at the world's origin.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (...)
        The energy, J.

    See Also
    --------
    elastic_energy : Energy of deformed flexible bodies.

    Notes
    -----
    −m g · c, with m c from the whole inertia Σ φ(O, k) M(k) φ*(O, k) = total M total*. **Cost:**
    one base-to-tip sweep, O(N). **Source:** theory/open-chains 4.5.

    Examples
    --------
    >>> from phipsi import potential_energy
    >>> from phipsi.examples import planar_arm
    >>> float(potential_energy(planar_arm(1), [1.5707963267948966]))
    4.905
    """
    program = program_of(WHOLE_INERTIA, model, "dense", potential_energy)
    calls = Calls(options)
    return calls.finish(-(first_moment(calls(program, q)) @ program.model.gravity))


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=UNAFFECTED)
def elastic_energy(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Energy in J stored in the deformation of flexible bodies; 0 for rigid bodies.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (...)
        The energy, J.

    Notes
    -----
    ½ η* K_e η, with the modal coordinates η of all bodies. **Cost:** one loop over the bodies,
    O(N). **Source:** theory/flexible-bodies 2.

    Examples
    --------
    >>> import phipsi as pp
    >>> beam = pp.FlexibleInertia.beam(2.0, 1.5, EI=100.0, modes=0)
    >>> builder = pp.ModelBuilder()
    >>> boom = builder.add_body("boom", joint=pp.joints.Fixed(), inertia=beam)
    >>> cantilever = builder.build()
    >>> tip = beam.ports[0].translation_modes[1]     # deflection along y for unit coordinates
    >>> q = 0.01 * tip / (tip @ tip)
    >>> static = 3 * 100.0 / 2.0**3 * 0.01**2 / 2    # by a force on the tip: 3 EI/L³ times w²/2
    >>> bool(pp.elastic_energy(cantilever, q) >= static)
    True
    """
    return evaluate(_ELASTIC, elastic_energy, model, (q,), options)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
def center_of_mass(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Center of mass of the whole mechanism.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., 3)
        Position in m from the world's origin, in world axes.

    Raises
    ------
    ModelError
        If the model has no mass.

    Notes
    -----
    c from total M total* = [[·, m c~], [−m c~, m I]]. **Cost:** one base-to-tip sweep, O(N).
    **Source:** MM eq. 2.

    Examples
    --------
    >>> from phipsi import center_of_mass
    >>> from phipsi.examples import planar_arm
    >>> center_of_mass(planar_arm(2), [0.0, 0.0])
    array([1., 0., 0.])
    """
    tree = tree_of(model, center_of_mass)
    mass = whole_mass(tree)
    if mass == 0:
        raise no_mass(tree)
    calls = Calls(options)
    return calls.finish(first_moment(calls(program_of(WHOLE_INERTIA, tree, "dense"), q)) / mass)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
def momentum(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    *,
    about: str = "origin",
    **options: Unpack[CallOptions],
) -> Array:
    """Total momentum of the bodies, with rotors behind gears and without armature.

    World axes, [angular (kg·m²/s), linear (kg·m/s)].

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    about : {"origin", "com"}, optional
        About the world's origin or about the center of mass. Default: "origin".
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., 6)
        The momentum.

    Notes
    -----
    total M V about the world's origin; ``about="com"`` moves it to the center of mass. **Cost:**
    one base-to-tip sweep, O(N). **Source:** theory/open-chains 12.

    Examples
    --------
    >>> from phipsi import momentum
    >>> from phipsi.examples import planar_arm
    >>> momentum(planar_arm(1), [0.0], [3.0]).round(12)
    array([0. , 0. , 1. , 0. , 1.5, 0. ])
    """
    check_momentum(model, "momentum")
    if one_of("about", about, ("origin", "com")) == "origin":
        return evaluate(_MOMENTUM, momentum, model, (q, v), options)
    program = about_mass_center(CENTROIDAL_MOMENTUM, MOMENTUM, model, "apply", momentum)
    return program.evaluate((q, v), options)


def check_momentum(model: Model, function: str) -> None:
    """Reject a mechanism with momentum that is not that of its bodies."""
    description = getattr(model, "description", None)
    if description is not None:
        description.attachments.check_momentum(model.model, function)


# ---- the mechanism as one rigid body -----------------------------------------------------------


def about_mass_center(
    com: Expr, origin: Expr, model: Model, mode: str, function: Callable[..., Any]
) -> Program:
    """The program about the mass centre; about the origin for a model without mass."""
    try:
        return model.cache[com, mode]
    except (KeyError, AttributeError):
        tree = tree_of(model, function)
        expr = com if whole_mass(tree) else origin
        return model.cached((com, mode), lambda: program_of(expr, tree, mode))


def no_mass(model: Model) -> ModelError:
    """Why there is no mass centre."""
    return ModelError(
        "the model has no mass centre: none of its "
        f"{model.n_bodies} moving bodies has mass (bodies welded to the world do not count)."
    )


def whole_mass(model: Model) -> float:
    """The mass of all moving bodies, kg."""
    return float(model.inertia_matrices[:, 3, 3].sum())


def first_moment(inertia: Array) -> Array:
    """The vector m c of [[·, m c~], [−m c~, m I]]."""
    return np.stack([inertia[..., 2, 4], inertia[..., 0, 5], inertia[..., 1, 3]], axis=-1)
