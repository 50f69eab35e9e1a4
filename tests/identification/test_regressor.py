"""Regressors, base parameters and identification, each number by a second route."""

import contextlib
import re

import numpy as np
import pytest
from comparers import close
from hypothesis import given, settings, strategies as st
from peers import InPinocchio, pinocchio_tree
from random_models import ALL, branching, chain, model_from_parents, models

import phipsi as pp
from phipsi.core.model.inertia import SpatialInertia
from phipsi.errors import InputError, ModelError, PhipsiWarning, SingularMatrixError
from phipsi.identification import least_squares as physical
from phipsi.identification.regressors import KINETIC_REGRESSOR, REGRESSOR

seeds = st.integers(0, 2**32 - 1)
BACKENDS = ("reference", "native")


def motion(model, seed, batch=()):
    rng = np.random.default_rng(seed)
    return model.random_configuration(rng, batch), *rng.standard_normal((2, *batch, model.nv))


# ---- regressors ----------------------------------------------------------------------------------


@given(models(max_bodies=6, armature=True), seeds)
@settings(max_examples=60)
def test_efforts_and_energies_are_linear(model, seed):
    q, v, vdot = motion(model, seed, (3,))
    p = pp.identification.inertial_parameters(model, armature=True)
    close(
        pp.identification.regressor(model, q, v, vdot, armature=True) @ p,
        pp.inverse_dynamics(model, q, v, vdot),
    )
    close(
        pp.identification.kinetic_energy_regressor(model, q, v, armature=True) @ p,
        pp.kinetic_energy(model, q, v),
    )
    bodies = p[: 10 * model.n_bodies]
    close(
        pp.identification.potential_energy_regressor(model, q) @ bodies,
        pp.potential_energy(model, q),
    )


def test_columns_are_derivatives():
    """Column i is what one unit of parameter i adds, on both backends."""
    model = model_from_parents([-1, 0, 1, 1, 3, 0, 5, 5, 7, 2, -1], 6, ALL)
    q, v, vdot = motion(model, 3)
    efforts, energies = [], []
    for backend in BACKENDS:
        program = pp.compile(REGRESSOR, model, mode="dense", backend=backend)
        assert program.backend == backend
        efforts.append(program(q, v, vdot))
        energies.append(pp.compile(KINETIC_REGRESSOR, model, backend=backend)(q, v).ravel())
    U = pp.identification.potential_energy_regressor(model, q)
    start = pp.identification.inertial_parameters(model)
    tau, kinetic = pp.inverse_dynamics(model, q, v, vdot), pp.kinetic_energy(model, q, v)
    potential = pp.potential_energy(model, q)
    for i in range(len(start)):
        p = start.copy()
        p[i] += 1.0
        with (
            pytest.warns(pp.errors.PhipsiWarning)
            if broken(p, i // 10)
            else contextlib.nullcontext()
        ):
            other = model.with_inertial_parameters(p, moments="warn")
        more = pp.inverse_dynamics(other, q, v, vdot) - tau
        added = pp.kinetic_energy(other, q, v) - kinetic
        for Y, T in zip(efforts, energies, strict=True):
            close(Y[:, i], more, 1e-11, np.abs(tau).max())
            close(T[i], added, 1e-11, abs(kinetic))
        close(U[i], pp.potential_energy(other, q) - potential, 1e-11, abs(potential))


def broken(p, k):
    moments = np.linalg.eigvalsh(
        SpatialInertia.from_parameters(p[10 * k : 10 * k + 10]).moment_about_com_B
    )
    return moments[0] < 0 or moments[2] > moments[0] + moments[1]


@pytest.mark.parametrize("seed", range(6))
def test_against_pinocchio(seed):
    model = pinocchio_tree(seed, 8, n_roots=1 + seed % 2)
    q, v, vdot = motion(model, seed)
    close(pp.identification.regressor(model, q, v, vdot), InPinocchio(model).regressor(q, v, vdot))


def test_friction_columns():
    model = branching(5, 1, ["revolute", "spherical", "prismatic"])
    q, v, vdot = motion(model, 0, (4,))
    options = {"armature": True, "viscous": True, "coulomb": True}
    Y = pp.identification.regressor(model, q, v, vdot, **options)
    names = pp.identification.parameter_names(model, **options)
    n, nv = 10 * model.n_bodies, model.nv
    assert Y.shape == (4, nv, n + 3 * nv) and len(names) == n + 3 * nv
    p = np.concatenate([np.zeros(n), np.arange(3 * nv) + 1.0])
    a, b, c = p[n:].reshape(3, nv)
    close(Y @ p, a * vdot + b * v + c * np.sign(v))
    assert names[n].endswith("armature") or names[n].endswith("armature[0]")
    joint = model.joints[0]
    if joint.nv > 1:
        assert names[n] == f"{model.joint_names[0]}.armature[0]"


def test_broadcasting_and_types():
    model = pp.examples.seven_joint_arm()
    q, v, vdot = motion(model, 0, (5,))
    whole = pp.identification.regressor(model, q, v[0], vdot[:1], viscous=True)
    assert whole.shape == (5, 7, 77)
    for i in range(5):
        close(whole[i], pp.identification.regressor(model, q[i], v[0], vdot[0], viscous=True))
    step = 1e-30
    along = pp.identification.regressor(model, q[0] + 1j * step, v[0], vdot[0]).imag / step
    h = 1e-5
    near = [pp.identification.regressor(model, q[0] + s * h, v[0], vdot[0]) for s in (1, -1)]
    close(along, (near[0] - near[1]) / (2 * h), 1e-7)


# ---- parameters of a model -----------------------------------------------------------------------


@given(models(max_bodies=5, armature=True), seeds)
@settings(max_examples=30)
def test_parameters_go_out_and_in(model, seed):
    p = pp.identification.inertial_parameters(model)
    again = model.with_inertial_parameters(p.reshape(-1, 10))
    close(pp.identification.inertial_parameters(again), p, 1e-14)
    assert (again.armature == model.armature).all() and again.joint_names == model.joint_names
    rotors = np.abs(np.random.default_rng(seed).standard_normal(model.nv))
    heavier = model.with_inertial_parameters(2 * p, armature=rotors)
    q, v, vdot = motion(model, seed)
    Y = pp.identification.regressor(model, q, v, vdot, armature=True)
    close(pp.inverse_dynamics(heavier, q, v, vdot), Y @ np.concatenate([2 * p, rotors]))


def test_parameters_no_body_has():
    arm = pp.examples.planar_arm(2)
    p = pp.identification.inertial_parameters(arm)
    for change, message in [
        ({10: -1.0}, r"body 'link2': mass -1 kg is negative"),
        ({10: 0.0}, r"body 'link2': the mass is 0 kg but the first moment"),
        ({4: 5.0}, r"body 'link1'.*triangle inequality"),
        ({5: -1.0}, r"body 'link1'.*not all ≥ 0"),
        ({3: np.nan}, r"body 'link1'.*not finite"),
    ]:
        wrong = p.copy()
        for i, x in change.items():
            wrong[i] = x
        with pytest.raises(ModelError, match=message):
            arm.with_inertial_parameters(wrong)
    wrong = p.copy()
    wrong[4] = 5.0
    with pytest.warns(pp.errors.PhipsiWarning, match="link1"):
        arm.with_inertial_parameters(wrong, moments="warn")
    with pytest.raises(InputError, match="20 numbers"):
        arm.with_inertial_parameters(p[:-1])
    with pytest.raises(InputError, match="armature"):
        arm.with_inertial_parameters(p, armature=[1.0])
    with pytest.raises(ModelError, match="armature -1 is negative"):
        arm.with_inertial_parameters(p, armature=[0.0, -1.0])


# ---- base parameters -----------------------------------------------------------------------------


@given(models(max_bodies=5), seeds)
@settings(max_examples=30)
def test_base_parameters_determine_the_efforts(model, seed):
    base = pp.identification.base_parameters(model)
    q, v, vdot = motion(model, seed, (50,))
    Y = base.regressor(q, v, vdot)
    close(
        Y @ base.values(),
        pp.identification.regressor(model, q, v, vdot)
        @ pp.identification.inertial_parameters(model),
        1e-8,
    )
    whole = pp.identification.regressor(model, q, 3 * v, 10 * vdot).reshape(-1, 10 * model.n_bodies)
    sizes = np.linalg.svd(whole / np.maximum(np.linalg.norm(whole, axis=0), 1e-9), compute_uv=False)
    assert len(base) == (sizes > 1e-8 * sizes[0]).sum()


def test_numbers_of_base_parameters():
    """Known counts: 7 per revolute joint and 3 less for the first two of a chain in gravity."""
    spatial = [chain(n, seed, ["revolute"]) for n, seed in ((2, 0), (4, 1), (6, 2))]
    assert [len(pp.identification.base_parameters(m)) for m in spatial] == [
        7 * (m.nv - 1) + 3 for m in spatial
    ]
    assert len(pp.identification.base_parameters(chain(1, 0, ["free"]))) == 10
    assert len(pp.identification.base_parameters(chain(1, 0, ["prismatic"]))) == 1
    assert len(pp.identification.base_parameters(pp.examples.planar_arm(1))) == 3
    assert (
        len(pp.identification.base_parameters(pp.examples.planar_arm(1).with_gravity((0, 0, 0))))
        == 1
    )


def test_nothing_to_identify():
    nothing = pp.examples.planar_arm(0)
    assert pp.identification.regressor(nothing, [], [], []).shape == (0, 0)
    assert (
        len(pp.identification.base_parameters(nothing)) == 0
        and pp.identification.parameter_names(nothing) == ()
    )
    assert pp.identification.inertial_parameters(nothing).shape == (0,)


def test_bodies_without_mass_keep_none():
    """A gear of which only the rotor counts, and a link: the model of the estimate has no ghost."""
    builder = pp.ModelBuilder()
    builder.add_body("gear", joint=pp.joints.Revolute((0, 0, 1)), armature=0.1)
    link = pp.SpatialInertia(1, (0.1, 0, 0), 0.1)
    place = pp.Pose(translation=(0.2, 0, 0))
    joint = pp.joints.Revolute((0, 1, 0))
    builder.add_body("link", parent="gear", joint=joint, placement=place, inertia=link)
    truth = builder.build()
    found = pp.identification.identify(
        pp.identification.base_parameters(truth, armature=True), *noisy(truth, 200, 0.01)
    )
    model = found.model()
    assert model.inertias[0].is_zero and model.inertias[1].mass > 0
    q, v, vdot = motion(truth, 9, (20,))
    error = pp.inverse_dynamics(model, q, v, vdot) - pp.inverse_dynamics(truth, q, v, vdot)
    assert np.abs(error).max() < 0.05


def test_names_and_combinations():
    base = pp.identification.base_parameters(pp.examples.planar_arm(2), viscous=True)
    assert base.names == (
        "link1.mcx + link2.m",
        "link1.mcy",
        "link1.Jzz + link2.m",
        "link2.mcx",
        "link2.mcy",
        "link2.Jzz",
        "joint1.viscous",
        "joint2.viscous",
    )
    assert "link1.m" in base.unidentifiable and "link2.Jxy" in base.unidentifiable
    assert "link2.m" not in base.unidentifiable
    assert len(base) == 8 and "8 combinations of 22" in repr(base)


@pytest.mark.parametrize("seed", range(4))
def test_complete(seed):
    """The found parameters have the wanted values, and nothing is changed that need not be."""
    model = chain(4, seed, ["revolute", "prismatic", "spherical", "revolute"])
    base = pp.identification.base_parameters(model)
    close(base.complete(base.values()), pp.identification.inertial_parameters(model))
    p = pp.identification.inertial_parameters(model)
    truth = model.with_inertial_parameters(p * np.repeat([1.1, 0.9, 1.2, 1.0], 10))
    found = base.complete(base.values(truth))
    close(base.combinations @ found, base.values(truth))
    guess = base.complete(base.values(truth), truth)
    close(guess, pp.identification.inertial_parameters(truth))
    with pytest.raises(InputError, match="base parameters are needed"):
        base.complete(np.zeros(len(base) + 1))
    # optimal: the change is orthogonal, in the body's own units, to all that has no effect
    masses = np.array([x.mass for x in model.inertias])
    J = np.array([x.parameters[4:7].sum() for x in model.inertias])
    length = np.sqrt(J / (2 * masses))
    units = np.concatenate(
        [m * np.repeat([1, l, l * l], (1, 3, 6)) for m, l in zip(masses, length, strict=True)]
    )
    _, _, Vt = np.linalg.svd(base.combinations * units)
    silent = Vt[len(base) :]
    assert np.abs(silent @ ((found - p) / units)).max() < 1e-9


# ---- identification ------------------------------------------------------------------------------


def noisy(model, count, noise, seed=0, options=None, friction=None):
    q, v, vdot = motion(model, seed, (count,))
    tau = pp.inverse_dynamics(model, q, 2 * v, 5 * vdot)
    if friction is not None:
        tau = tau + friction[0] * 2 * v + friction[1] * np.sign(v)
    rng = np.random.default_rng(seed + 1)
    return q, 2 * v, 5 * vdot, tau + noise * rng.standard_normal(tau.shape)


@pytest.mark.parametrize("rotor", [0.0, 0.3])
def test_exact_data_give_exact_parameters(rotor):
    model = pp.examples.seven_joint_arm(armature=rotor)
    base = pp.identification.base_parameters(model, armature=True)
    found = pp.identification.identify(base, *noisy(model, 300, 0.0))
    close(found.values, base.values(), 1e-9)
    completed = base.complete(found.values)
    close(completed, pp.identification.inertial_parameters(model, armature=True), 1e-8)


def test_least_squares_by_another_route():
    """The normal equations of the weighted problem, and the spread over many experiments."""
    model = pp.examples.planar_arm(2)
    base = pp.identification.base_parameters(model)
    noise = np.array([0.5, 0.02])
    data = noisy(model, 40, noise)
    found = pp.identification.identify(base, *data, noise=noise)
    Y = base.regressor(*data[:3])
    W = 1 / noise**2
    normal = np.einsum("kij,i,kil->jl", Y, W, Y)
    close(found.covariance, np.linalg.inv(normal), 1e-9)
    close(found.values, np.linalg.solve(normal, np.einsum("kij,i,ki->j", Y, W, data[3])))
    q, v, vdot = data[:3]
    clean = pp.inverse_dynamics(model, q, v, vdot)
    rng = np.random.default_rng(5)
    estimates = np.array(
        [
            pp.identification.identify(
                base, q, v, vdot, clean + noise * rng.standard_normal(clean.shape)
            ).values
            for _ in range(400)
        ]
    )
    spread = np.cov(estimates.T)
    ratio = np.sqrt(np.diag(spread) / np.diag(found.covariance))
    assert (np.abs(ratio - 1) < 0.2).all()  # 400 draws: 3.5 % standard deviation of each
    error = (estimates.mean(axis=0) - base.values()) / found.deviations
    assert (np.abs(error) < 4 / np.sqrt(400) * 1.5).all()


def test_noise_is_estimated():
    model = pp.examples.seven_joint_arm()
    noise = np.array([0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02])
    base = pp.identification.base_parameters(model, viscous=True, coulomb=True)
    friction = np.array([0.3, 0.6])[:, None] * np.ones(7)
    found = pp.identification.identify(base, *noisy(model, 2000, noise, friction=friction))
    assert (np.abs(found.noise / noise - 1) < 0.1).all()
    truth = base.combinations @ np.concatenate(
        [pp.identification.inertial_parameters(model), *friction]
    )
    assert (np.abs(found.values - truth) < 5 * found.deviations).all()
    q, v, vdot = motion(model, 77, (20,))
    predicted = found.efforts(q, v, vdot)
    wanted = pp.inverse_dynamics(model, q, v, vdot) + friction[0] * v + friction[1] * np.sign(v)
    assert (np.abs(predicted - wanted) < 5 * found.effort_deviations(q, v, vdot)).all()
    assert found.table().count("\n") == len(base) - 1


def test_poor_data_are_refused():
    model = pp.examples.planar_arm(2)
    base = pp.identification.base_parameters(model)
    q, v, vdot, tau = noisy(model, 30, 0.1)
    with pytest.raises(SingularMatrixError, match="does not excite 1 of the 6.*\n    link2.Jzz"):
        still = np.zeros_like(v)
        held = vdot * [1, -1]
        held[:, 1] = -held[:, 0]
        pp.identification.identify(base, q, still, held, pp.inverse_dynamics(model, q, still, held))
    with pytest.raises(SingularMatrixError, match="cannot tell"):
        pp.identification.identify(base, q[:1] + 0 * q, v[:1] + 0 * v, vdot[:1] + 0 * vdot, tau)
    with pytest.raises(InputError, match="cannot determine"):
        pp.identification.identify(base, q[:2], v[:2], vdot[:2], tau[:2])
    with pytest.raises(InputError, match="shape"):
        pp.identification.identify(base, q, v, vdot, tau[:, :1])
    with pytest.raises(InputError, match="finite"):
        pp.identification.identify(base, q, v, vdot, tau * np.nan)
    with pytest.raises(InputError, match="noise"):
        pp.identification.identify(base, q, v, vdot, tau, noise=0.0)


def test_joints_without_an_actuator_need_a_noise():
    """Where tau is zero, the noise estimated from residuals makes the parameters too small."""
    truth = pp.examples.planar_arm(2)
    base = pp.identification.base_parameters(truth)
    q, v, _ = motion(truth, 3, (300,))
    tau = np.stack([np.sin(np.arange(300)), np.zeros(300)], axis=1)
    vdot = pp.forward_dynamics(truth, q, v, tau)
    rough = vdot + 0.3 * np.random.default_rng(3).standard_normal(vdot.shape)
    joint = re.escape(repr(truth.joint_names[1]))
    with pytest.raises(
        InputError, match=rf"zero at joint {joint}.*\s+identify\(.*noise=\["
    ) as said:
        pp.identification.identify(base, q, v, rough, tau)
    noise = [float(x) for x in str(said.value).split("noise=[")[1].split("]")[0].split(",")]
    found = pp.identification.identify(base, q, v, rough, tau, noise=noise)
    assert (found.relative_deviations[base.values() > 1e-9] < 0.2).all()
    close(pp.identification.identify(base, q, v, vdot, tau, noise=0.1).values, base.values(), 1e-8)
    with pytest.warns(PhipsiWarning, match="base parameters have standard deviations above 100 %"):
        pp.identification.identify(base, q, v, vdot, tau, noise=1e4)


# ---- models that can exist -----------------------------------------------------------------------


def pseudo_inertia(inertia):
    J = inertia.moment_about_origin_B
    out = np.zeros((4, 4))
    out[:3, :3] = np.trace(J) / 2 * np.eye(3) - J
    out[:3, 3] = out[3, :3] = inertia.mass * inertia.com_B
    out[3, 3] = inertia.mass
    return out


def test_the_model_of_an_estimate_can_exist():
    """Few and noisy data: the linear choice has no rigid bodies, the model has, and fits too."""
    truth = pp.examples.seven_joint_arm(armature=0.2)
    base = pp.identification.base_parameters(truth, armature=True, viscous=True)
    friction = np.array([0.4, 0.0])[:, None] * np.ones(7)
    data = noisy(truth, 60, np.linspace(1.0, 0.1, 7), friction=friction)
    found = pp.identification.identify(base, *data)
    guess = truth.with_inertial_parameters(0.8 * pp.identification.inertial_parameters(truth))
    with pytest.raises(ModelError, match="no rigid body has them"):
        guess.with_inertial_parameters(base.complete(found.values, guess)[:70])
    model = found.model(guess)
    for inertia in model.inertias:
        assert np.linalg.eigvalsh(pseudo_inertia(inertia))[0] > 0
    assert (model.armature >= 0).all() and (model.damping >= 0).all()
    weight = np.linalg.inv(found.covariance)
    miss = base.values(model) - found.values
    off = base.values(guess) - found.values
    assert miss @ weight @ miss < 3 * len(base) < 0.01 * (off @ weight @ off)


def test_the_model_is_optimal():
    """The gradient of likelihood and prior vanishes at the model, by differences."""
    guess = chain(3, 4, ["revolute"], armature=True)
    base = pp.identification.base_parameters(guess, armature=True, viscous=True, coulomb=True)
    scale = np.repeat([0.8, 1.3, 0.9], 10)
    truth = guess.with_inertial_parameters(scale * pp.identification.inertial_parameters(guess))
    found = pp.identification.identify(base, *noisy(truth, 30, 0.5, friction=np.ones((2, 3))))
    prior = 0.7
    form = physical._Parametrization(base, guess)
    p = physical.physical_parameters(base, found.values, found.covariance, guess, prior)
    U = physical._upper_factor(physical._pseudo_inertias(p[:30].reshape(3, 10)))
    above = U[:, [0, 0, 1, 0, 1, 2], [1, 2, 2, 3, 3, 3]] / form.size[:, None]
    entries = np.hstack([np.log(np.diagonal(U, axis1=1, axis2=2)), above])
    theta = np.concatenate([entries.ravel(), np.sqrt(p[30:36]), p[36:]])
    close(form.parameters(theta), p)
    W = np.linalg.inv(found.covariance)

    def cost(x):
        r = base.combinations @ form.parameters(x) - found.values
        return r @ W @ r + np.sum((x - form.start) ** 2) / prior**2

    h = 1e-5

    def gradient(x):
        return np.array([cost(x + h * e) - cost(x - h * e) for e in np.eye(len(x))]) / (2 * h)

    assert np.abs(gradient(theta)).max() < 1e-5 * np.abs(gradient(form.start)).max()
    assert cost(theta) < 0.1 * cost(form.start)
    numeric = np.array(
        [
            (form.parameters(theta + h * e) - form.parameters(theta - h * e)) / (2 * h)
            for e in np.eye(len(theta))
        ]
    ).T
    close(form.derivative(theta), numeric, 1e-8)
    close(pp.identification.inertial_parameters(found.model(prior=prior), armature=True), p[:33])


def test_pseudo_inertias():
    rng = np.random.default_rng(0)
    model = chain(4, 0, ["revolute"])
    p = pp.identification.inertial_parameters(model).reshape(-1, 10)
    pseudo = physical._pseudo_inertias(p)
    for k, inertia in enumerate(model.inertias):
        close(pseudo[k], pseudo_inertia(inertia))
    U = physical._upper_factor(pseudo)
    close(U @ np.swapaxes(U, -1, -2), pseudo)
    assert (np.tril(U, -1) == 0).all()
    random = rng.standard_normal((3, 10))
    close(physical._from_pseudo_inertias(physical._pseudo_inertias(random)), random)
