"""Dynamics linear in the inertial parameters: regressors of efforts and energies."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.backends import CallOptions, Calls
from phipsi.core.compiler import NamedForm, evaluate, program_of
from phipsi.core.expressions import Expr
from phipsi.core.model import UNAFFECTED, Model, Refusal, supports, tree_of
from phipsi.core.operators import H, V, a, cross, gravity, phi, pose, regress, rigid_cross, vdot
from phipsi.errors import true_or_false

Array = NDArray[Any]

_ALPHA = phi.T @ (H.T @ vdot + a + gravity)
REGRESSOR = H @ phi @ (regress(_ALPHA) - cross(V).T @ regress(V))
_WITH_MODES = H @ phi @ (regress(_ALPHA) - rigid_cross(V).T @ regress(V))


def regressor_form(modal: bool) -> Expr:
    """Y as an operator; `modal`: bodies may deform."""
    return _WITH_MODES if modal else REGRESSOR


_REGRESSOR = NamedForm(regressor_form, "dense")
KINETIC_REGRESSOR = Fraction(1, 2) * regress(V).T @ V

_NOT_ALL = (
    "its {0} is not a sum over the ten parameters of bodies, but depends on the invariants of "
    "their modes too. Derivatives with respect to the ten parameters, with constant invariants:\n"
    "    pp.identification.regressor(model, q, v, vdot)\n"
    "    pp.diff(expr, 'inertia', modes=True)"
)
INERTIAL = ("m", "mcx", "mcy", "mcz", "Jxx", "Jyy", "Jzz", "Jxy", "Jxz", "Jyz")
COLUMNS = ("armature", "viscous", "coulomb")


@supports(
    loops=Refusal(
        "the efforts at its joints also hold the constraint forces, which the parameters do not "
        "determine",
        "The energies are linear in the parameters there too: kinetic_energy_regressor and "
        "potential_energy_regressor of pp.identification.",
    ),
    flexible=True,
    rotors=True,
)
def regressor(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vdot: ArrayLike,
    *,
    armature: bool = False,
    viscous: bool = False,
    coulomb: bool = False,
    **options: Unpack[CallOptions],
) -> Array:
    """Regressor Y: joint torques from the inertial parameters of the bodies, tau = Y π.

    π holds [m, m c (3), Jxx, Jyy, Jzz, Jxy, Jxz, Jyz] of every body in the order of the model,
    about its origin in body axes; `inertial_parameters` returns the model's own. Column 10 k + i of
    row j is zero unless body k is outboard of joint j. With ``armature=True``, Y π is
    `inverse_dynamics`; without it the armature part is missing.

    Of a flexible body they are the parameters m, s_0, J_0 of the undeformed one. What its modes
    add, elastic forces and all other invariants of M(η), does not depend on π: tau = Y π + the
    rest. The same holds for what rotors on skew axes add to the bodies that they are part of.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    vdot : array_like, shape (..., nv)
        Generalized accelerations, rad/s² or m/s².
    armature : bool, optional
        Add one column per degree of freedom for rotor inertia, diag(vdot). Default: False.
    viscous : bool, optional
        Add columns for viscous friction, diag(v), after these. Default: False.
    coulomb : bool, optional
        Add columns for Coulomb friction, diag(sign v), after these. Default: False.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., nv, 10 n)
        The regressor, and nv columns more for each option.

    Notes
    -----
    Y = H φ (regress(α) − cross(V)* regress(V)) with α = φ* (H* vdot + a + gravity). **Cost:** one
    sweep and O(N · depth) for the entries. **Source:** theory/sensitivities 8.

    Examples
    --------
    >>> from phipsi.identification import inertial_parameters, regressor
    >>> from phipsi.examples import planar_arm
    >>> arm = planar_arm(1)
    >>> Y = regressor(arm, [0.0], [0.0], [2.0])
    >>> Y.round(2)
    array([[0.  , 9.81, 0.  , 0.  , 0.  , 0.  , 2.  , 0.  , 0.  , 0.  ]])
    >>> (Y @ inertial_parameters(arm)).round(4)     # m g l / 2 + m l² / 3 · 2
    array([5.5717])
    """
    if not (armature is viscous is coulomb is False):
        armature, viscous, coulomb = _checked(armature, viscous, coulomb)
    if not (armature or viscous or coulomb):
        return evaluate(_REGRESSOR, regressor, model, (q, v, vdot), options)
    model, calls = tree_of(model, regressor), Calls(options)
    out = calls(program_of(regressor_form(model.has_more_rows), model, "dense"), q, v, vdot)
    rates, accelerations = np.asarray(v), np.asarray(vdot)
    more = [
        *([accelerations] if armature else []),
        *([rates] if viscous else []),
        *([np.sign(np.real(rates))] if coulomb else []),
    ]
    eye = np.eye(model.nv)
    columns = [np.broadcast_to(x[..., None] * eye, (*out.shape[:-1], model.nv)) for x in more]
    out = np.concatenate([out, *columns], axis=-1)
    return calls.finish(out)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True)
def inertial_parameters(
    model: Model, *, armature: bool = False, viscous: bool = False, coulomb: bool = False
) -> Array:
    """The parameters of a model that its equations of motion are linear in.

    [m, m c (3), Jxx, Jyy, Jzz, Jxy, Jxz, Jyz] of every body, about its origin in body axes, with
    Jxy the entry of the matrix (minus the product of inertia); kg, kg·m and kg·m².
    `Model.with_inertial_parameters` is the inverse. What the model's rotors behind gears add to
    moments and armature is included. Of flexible bodies they are those of the undeformed ones.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    armature : bool, optional
        Append the armature of every degree of freedom. Default: False.
    viscous : bool, optional
        Append the viscous damping, after these. Default: False.
    coulomb : bool, optional
        Append the Coulomb friction, after these, which a model does not contain and is 0. Default:
        False.

    Returns
    -------
    ndarray, shape (10 n,)
        The parameters, and nv more for each option.

    Notes
    -----
    **Source:** theory/sensitivities 8.

    Examples
    --------
    >>> from phipsi.identification import inertial_parameters
    >>> from phipsi.examples import planar_arm
    >>> inertial_parameters(planar_arm(1)).round(3)
    array([1.   , 0.5  , 0.   , 0.   , 0.   , 0.333, 0.333, 0.   , 0.   , 0.   ])
    """
    model = tree_of(model, inertial_parameters)
    armature, viscous, coulomb = _checked(armature, viscous, coulomb)
    bodies = np.reshape([inertia.parameters for inertia in model.inertias], (-1, 10))
    if model.description.attachments:
        bodies = bodies + model.description.added_inertia(model.nv)[0]
    return np.concatenate(
        [
            bodies.ravel(),
            *([model.armature] if armature else []),
            *([model.damping] if viscous else []),
            *([np.zeros(model.nv)] if coulomb else []),
        ]
    )


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True)
def parameter_names(
    model: Model, *, armature: bool = False, viscous: bool = False, coulomb: bool = False
) -> tuple[str, ...]:
    """Names of the columns of `regressor`, such as "hand.mcx" or "wrist.armature".

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    armature, viscous, coulomb : bool, optional
        As for `regressor`. Default: False.

    Returns
    -------
    tuple of str
        One name per column. The degrees of freedom of a joint with several are numbered,
        "base.viscous[0]".

    Examples
    --------
    >>> from phipsi.identification import parameter_names
    >>> from phipsi.examples import planar_arm
    >>> parameter_names(planar_arm(1), armature=True)[-3:]
    ('link1.Jxz', 'link1.Jyz', 'joint1.armature')
    """
    model = tree_of(model, parameter_names)
    names = [f"{body}.{parameter}" for body in model.body_names for parameter in INERTIAL]
    chosen = _checked(armature, viscous, coulomb)
    for option, wanted in zip(COLUMNS, chosen, strict=True):
        for joint, s in zip(model.joint_names, model.v_slices, strict=True):
            count = s.stop - s.start
            if wanted and count == 1:
                names.append(f"{joint}.{option}")
            elif wanted:
                names += [f"{joint}.{option}[{i}]" for i in range(count)]
    return tuple(names)


def _checked(*chosen: Any) -> list[bool]:
    """Which columns of joints are wanted."""
    return [true_or_false(name, x) for name, x in zip(COLUMNS, chosen, strict=True)]


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=Refusal(_NOT_ALL.format("energy")))
def kinetic_energy_regressor(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    *,
    armature: bool = False,
    **options: Unpack[CallOptions],
) -> Array:
    """Row that gives the kinetic energy from the inertial parameters.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    armature : bool, optional
        Append ½ v² for every degree of freedom. Default: False.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., 10 n)
        The row, or with armature (..., 10 n + nv).

    Notes
    -----
    ½ regress(V)* V: ½ V* M V = (½ regress(V)* V)* π. **Cost:** one base-to-tip sweep, O(N).
    **Source:** theory/sensitivities 8.

    Examples
    --------
    >>> from phipsi.identification import inertial_parameters
    >>> from phipsi.identification import kinetic_energy_regressor
    >>> from phipsi.examples import planar_arm
    >>> arm = planar_arm(1)
    >>> round(float(kinetic_energy_regressor(arm, [0.3], [3.0]) @ inertial_parameters(arm)), 9)
    1.5
    """
    model, calls = tree_of(model, kinetic_energy_regressor), Calls(options)
    out = calls(program_of(KINETIC_REGRESSOR, model), q, v)
    out = out.reshape(*out.shape[:-2], 10 * model.n_bodies)
    if true_or_false("armature", armature):
        squares = np.broadcast_to(np.asarray(v) ** 2 / 2, (*out.shape[:-1], model.nv))
        out = np.concatenate([out, squares], axis=-1)
    return calls.finish(out)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=Refusal(_NOT_ALL.format("energy")))
def potential_energy_regressor(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Row that gives the potential energy of gravity from the inertial parameters.

    Zero for the moments of inertia.

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
    ndarray, shape (..., 10 n)
        The row.

    Notes
    -----
    −g · (m p + R m c) of every body, with p and R its position and rotation in the world. **Cost:**
    one base-to-tip sweep, O(N). **Source:** theory/open-chains 4.5.

    Examples
    --------
    >>> from phipsi.identification import inertial_parameters
    >>> from phipsi.identification import potential_energy_regressor
    >>> from phipsi.examples import planar_arm
    >>> arm = planar_arm(1)
    >>> row = potential_energy_regressor(arm, [1.5707963267948966])
    >>> round(float(row @ inertial_parameters(arm)), 9)
    4.905
    """
    model, calls = tree_of(model, potential_energy_regressor), Calls(options)
    poses = calls(program_of(pose, model), q)
    out = np.zeros((*poses.shape[:-2], len(INERTIAL)), dtype=poses.dtype)
    out[..., 0] = -(poses[..., :3, 3] @ model.gravity)
    out[..., 1:4] = -(np.swapaxes(poses[..., :3, :3], -1, -2) @ model.gravity)
    return calls.finish(out.reshape(*out.shape[:-2], 10 * model.n_bodies))
