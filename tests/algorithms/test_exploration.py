"""Random motions and forces in the metric of a mechanism: covariances, paths, arguments.

Statistical bounds: of n samples whitened by a dense factor, entries of the covariance have standard
deviations of at most √(2/n). With fixed seeds all are within 5 of them; a wrong covariance is not.
"""

import numpy as np
import pytest
from function_calls import MODES, ROTORS
from known_systems import pinned_arm
from numpy.testing import assert_allclose, assert_array_equal
from random_models import branching, chain, random_tree
from random_systems import random_system

import phipsi as pp
from phipsi.errors import InputError

ex = pp.exploration
TREES = {
    "branches": branching(6, 1),
    "free base": chain(4, 2, joints=["free", "revolute", "spherical", "prismatic"]),
    "forest": random_tree(3, 6, n_roots=2, armature=True),
    "arm": pp.examples.seven_joint_arm(armature=0.05),
}
MANY = 20_000


def deviation(samples, covariance):
    """The largest entry of cov(whitened samples) − I, in standard deviations."""
    L = np.linalg.cholesky(covariance)
    white = np.linalg.solve(L, samples.T)
    n = len(samples)
    return np.abs(white @ white.T / n - np.eye(len(L))).max() / np.sqrt(2 / n)


def isotropic(like, seed=0):
    """Noise of the same mean square, alike in all directions."""
    return np.sqrt(np.mean(like**2)) * np.random.default_rng(seed).standard_normal(like.shape)


@pytest.mark.parametrize("name", TREES)
def test_covariances_of_trees(name):
    model = TREES[name]
    q = model.random_configuration(0)
    mass = pp.mass_matrix(model, q)
    for seed, (sample, covariance) in enumerate(
        [(ex.velocity_noise, np.linalg.inv(mass)), (ex.force_noise, mass)]
    ):
        noise = sample(model, q, 0.7, size=MANY, seed=seed)
        assert noise.shape == (MANY, model.nv)
        assert deviation(noise, 0.7 * covariance) < 5
        # twins that must fail
        assert deviation(isotropic(noise), 0.7 * covariance) > 10
        assert deviation(noise, 0.8 * covariance) > 5
        assert deviation(noise, 0.7 * np.linalg.inv(covariance)) > 10


@pytest.mark.parametrize("name", TREES)
def test_samples_are_a_linear_map_of_normal_numbers(name):
    """Its square is ℳ⁻¹ or ℳ to rounding, for every element of a batch."""
    model = TREES[name]
    q = model.random_configuration(1, (3,))
    normal = np.random.default_rng(5).standard_normal((400, 3, model.nv))
    for sample, sign in ((ex.velocity_noise, -1), (ex.force_noise, 1)):
        noise = sample(model, q, 2.0, size=400, seed=5)
        for i in range(3):
            root, *_ = np.linalg.lstsq(normal[:, i], noise[:, i], rcond=None)
            mass = pp.mass_matrix(model, q[i])
            if sign < 0:
                found = root @ mass @ root.T  # (L* ℳ L) of v = L ε, up to kT the identity
                assert_allclose(found, 2 * np.eye(model.nv), atol=1e-10)
            else:
                assert_allclose(root.T @ root, 2 * mass, rtol=0, atol=1e-11 * np.abs(mass).max())


def test_equipartition():
    """½ kT of kinetic energy for every degree of freedom: a χ² variable with nv of them."""
    model = pp.examples.free_flyer()
    q = model.random_configuration(0, (2000,))
    T = pp.kinetic_energy(model, q, ex.velocity_noise(model, q, 3.0, seed=0))
    assert abs(T.mean() / 1.5 - model.nv) < 5 * np.sqrt(2 * model.nv / len(q))
    assert abs(T.var() / 1.5**2 / (2 * model.nv) - 1) < 0.2
    # as impulses, forces have the same energy
    v = np.linalg.solve(pp.mass_matrix(model, q), ex.force_noise(model, q, 3.0, seed=0)[..., None])
    assert_allclose(pp.kinetic_energy(model, q, v[..., 0]).mean() / 1.5, model.nv, rtol=0.02)


@pytest.mark.parametrize("case", [0, 1, "redundant"])
def test_closed_loops(case):
    """v = N c with a basis N of the admissible velocities, and c of covariance kT (N* ℳ N)⁻¹."""
    if case == "redundant":
        system = pinned_arm(closure="Revolute")  # planar: three of its five rows follow
        q = system.assemble([1.0, -1.0, -1.5])
    else:
        system, q = random_system(case, 5, ("Spherical", "Distance"))
    G = system.jacobian(q)
    _, s, rows = np.linalg.svd(G)
    N = rows[int((s > 1e-9 * s[0]).sum()) :].T
    reduced = np.linalg.inv(N.T @ pp.mass_matrix(system, q) @ N)
    v = ex.velocity_noise(system, q, 0.5, size=MANY, seed=1)
    assert np.abs(v @ G.T).max() < 1e-9 * np.abs(G).max() * np.abs(v).max()
    assert deviation(v @ N, 0.5 * reduced) < 5
    tau = ex.force_noise(system, q, 0.5, size=MANY, seed=2)
    assert deviation(tau @ N, 0.5 * np.linalg.inv(reduced)) < 5
    free = ex.velocity_noise(system.model, q, 0.5, size=MANY, seed=1)  # the twin
    assert np.abs(free @ G.T).max() > 0.01
    assert deviation(free @ N, 0.5 * reduced) > 5


def test_prescribed_motion_does_not_shift_the_noise():
    arm = pp.examples.planar_arm(3)
    motor = pp.constraints.Motor(name="drive", joint=arm.joint_names[0], rate=4.0)
    v = ex.velocity_noise(pp.System(arm, [motor]), arm.neutral(), size=500, seed=0)
    assert_allclose(v[:, 0], 0, atol=1e-12)
    assert np.abs(v[:, 1:].mean(axis=0)).max() < 5 * v[:, 1:].std() / np.sqrt(500)


@pytest.mark.parametrize("case", [MODES, ROTORS], ids=["flexible", "rotors"])
def test_flexible_bodies_and_rotors(case):
    model, q = case.mechanism, case.state.q
    mass = pp.mass_matrix(model, q)
    v = ex.velocity_noise(model, q, size=MANY, seed=1)
    assert deviation(v, np.linalg.inv(mass)) < 5
    assert deviation(ex.force_noise(model, q, size=MANY, seed=2), mass) < 5
    if case.twin is not None:  # without the rotor
        assert deviation(v, np.linalg.inv(pp.mass_matrix(case.twin, q))) > 5


# ---- paths ---------------------------------------------------------------------------------------


def second_differences(n):
    """Of a path of n points, at the points 1 … n − 2."""
    return np.eye(n)[:-2] - 2 * np.eye(n)[1:-1] + np.eye(n)[2:]


def path_covariance(model, path, ends):
    """Covariance of the free points of a path, from its density exp(−½ Σ η̈* ℳ η̈ / c).

    The precision matrix is a Hessian of Gauss's constraint; c normalises velocities for ℳ = I.
    """
    n, nv = len(path), model.nv
    free = {"fixed": slice(1, n - 1), "free": slice(2, n)}[ends]
    A = second_differences(n)[:, free]
    mass = pp.mass_matrix(model, path)[1:-1]
    precision = np.einsum("ki,kab,kj->iajb", A, mass, A)
    m = A.shape[1] * nv
    unit = np.zeros((n, n))
    unit[free, free] = np.linalg.inv(A.T @ A)
    D = np.diff(np.eye(n), axis=0)
    speed = np.trace(D @ unit @ D.T) * (n - 1)  # mean square velocity, time in durations
    return np.linalg.inv(precision.reshape(m, m)) / speed, free


@pytest.mark.parametrize("ends", ["fixed", "free"])
@pytest.mark.parametrize("name", ["planar", "free base"])
def test_covariance_of_paths(name, ends):
    model = pp.examples.planar_arm(2) if name == "planar" else chain(2, 4, joints=["free"])
    q0 = model.random_configuration(0)
    step = 0.4 * np.random.default_rng(1).standard_normal(model.nv)
    path = model.integrate(q0, np.arange(6)[:, None] * step)
    eta = ex.path_noise(model, path, 0.3, duration=2.0, ends=ends, size=MANY, seed=2)
    covariance, free = path_covariance(model, path, ends)
    stacked = eta[:, free].reshape(MANY, -1)
    assert deviation(stacked, 0.3 * 4.0 * covariance) < 5
    assert deviation(isotropic(stacked), 0.3 * 4.0 * covariance) > 10
    # the metric is that of every point of the path: that of its beginning is not enough
    still, _ = path_covariance(model, np.broadcast_to(q0, path.shape), ends)
    if name == "planar":
        assert deviation(stacked, 0.3 * 4.0 * still) > 5


@pytest.mark.parametrize("ends", ["fixed", "at_rest", "free"])
def test_velocities_of_paths_have_the_thermal_energy(ends):
    """Of a mechanism with a constant mass matrix: two carts on one another."""
    builder = pp.ModelBuilder()
    for name, parent, mass in (("lower", "world", 5.0), ("upper", "lower", 0.2)):
        builder.add_body(name, parent=parent, joint=pp.joints.Prismatic((1, 0, 0)),
                         inertia=pp.SpatialInertia(mass))  # fmt: skip
    carts, n = builder.build(), 31
    eta = ex.path_noise(carts, np.zeros((n, 2)), 0.8, duration=3.0, ends=ends, size=4000, seed=0)
    v = np.diff(eta, axis=1) / (3.0 / (n - 1))
    T = pp.kinetic_energy(carts, np.zeros(2), v).mean(axis=1)  # over the path
    assert abs(T.mean() - 0.8) < 5 * T.std() / np.sqrt(len(T))  # ½ kT for each of two
    assert_array_equal(eta[:, 0], 0)
    if ends != "free":
        assert_array_equal(eta[:, -1], 0)
    if ends != "fixed":
        assert_allclose(v[:, 0], 0, atol=1e-12)
    if ends == "at_rest":
        assert_allclose(v[:, -1], 0, atol=1e-12)
    else:
        assert np.abs(v[:, -1]).mean() > 0.05


@pytest.mark.parametrize("ends", ["fixed", "at_rest", "free"])
def test_paths_do_not_depend_on_the_number_of_points(ends):
    """The process has a limit in continuous time: at mid-path its variance converges."""
    arm = pp.examples.planar_arm(1)
    spread = [
        ex.path_noise(arm, np.zeros((n, 1)), ends=ends, size=4000, seed=n)[:, n // 2].std()
        for n in (51, 201)
    ]
    assert_allclose(spread[0], spread[1], rtol=0.08)


def test_paths_are_smooth():
    """Second order: differences of an angle over one step are O(h), second ones O(h^1.5)."""
    arm = pp.examples.seven_joint_arm()
    paths = ex.smooth_paths(arm, np.zeros(7), np.full(7, 0.5), 400, size=50, seed=1)
    first, second = np.diff(paths, axis=1), np.diff(paths, 2, axis=1)
    assert np.abs(second).max() < 0.5 * np.abs(first).max()
    rough = ex.velocity_noise(arm, paths, seed=0)  # without smoothing
    assert np.abs(np.diff(rough, 2, axis=1)).max() > np.abs(np.diff(rough, axis=1)).max()


def test_paths_of_free_bases():
    model = pp.examples.free_flyer()
    q0, q1 = model.random_configuration(0, (3,)), model.random_configuration(1, (3,))
    paths = ex.smooth_paths(model, q0, q1, 12, kT=0.01, size=4, seed=0)
    assert paths.shape == (4, 3, 13, model.nq)
    assert_array_equal(paths[:, :, 0], np.broadcast_to(q0, (4, 3, model.nq)))
    assert_array_equal(paths[:, :, -1], np.broadcast_to(q1, (4, 3, model.nq)))
    s = np.linspace(0, 1, 13)[:, None]
    mean = model.integrate(q0[:, None], s * model.difference(q0, q1)[:, None])
    eta = ex.path_noise(model, mean, 0.01, size=4, seed=0)
    back = model.difference(np.broadcast_to(mean, paths.shape), paths)
    assert_allclose(back[:, :, 1:-1], eta[:, :, 1:-1], atol=1e-9)
    one = ex.smooth_paths(model, q0[0], steps=10, kT=0.01, seed=0)  # a free end
    assert one.shape == (11, model.nq) and np.abs(one[-1] - q0[0]).max() > 1e-4
    assert_array_equal(one[0], q0[0])


# ---- arguments -----------------------------------------------------------------------------------


def calls(model):
    q = model.random_configuration(0, (2,))
    path = np.zeros((2, 6, model.nq)) + q[:, None]
    return [
        lambda **o: ex.velocity_noise(model, q, **o),
        lambda **o: ex.force_noise(model, q, **o),
        lambda **o: ex.path_noise(model, path, **o),
        lambda **o: ex.smooth_paths(model, q, q[::-1], 6, **o),
    ]


@pytest.mark.parametrize("i", range(4))
def test_seeds_threads_and_shapes(i):
    sample = calls(TREES["arm"])[i]
    one = sample(seed=7)
    assert_array_equal(one, sample(seed=7))
    assert_array_equal(one, sample(seed=np.random.default_rng(7)))
    assert not np.array_equal(one, sample(seed=8))
    assert not np.array_equal(sample(), sample())
    several = sample(seed=7, size=3)
    assert several.shape == (3, *one.shape)
    assert_array_equal(several, sample(seed=7, size=3, threads=2))
    assert_array_equal(sample(seed=7, size=1)[0], one)


@pytest.mark.parametrize("i", range(4))
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kT": 0.0}, "kT=0.0 must be a finite .*more than 0"),
        ({"kT": -1.0}, "kT=-1.0"), ({"kT": np.inf}, "kT=inf"), ({"kT": "hot"}, "kT='hot'"),
        ({"kT": True}, "kT=True"), ({"kT": [1.0, 2.0]}, "kT="),
        ({"size": 0}, "size=0 must be an integer of at least 1"), ({"size": 2.5}, "size=2.5"),
        ({"seed": -1}, "seed=-1 must be an integer ≥ 0"), ({"seed": "x"}, "seed='x'"),
        ({"threads": 0}, "threads"),
    ],
)  # fmt: skip
def test_bad_options(i, options, message):
    with pytest.raises(InputError, match=message):
        calls(TREES["arm"])[i](**options)


def test_bad_arguments():
    arm = TREES["arm"]
    for sample in (ex.velocity_noise, ex.force_noise, ex.path_noise):
        with pytest.raises(InputError, match="q"):
            sample(arm, np.zeros(6))
        with pytest.raises(InputError, match="finite"):
            sample(arm, np.full((6, 7), np.nan))
    with pytest.raises(InputError, match="model"):
        ex.velocity_noise(np.zeros(7), arm)
    with pytest.raises(InputError, match=r"path of five or more.*\n.*smooth_paths\(model, q0, q1"):
        ex.path_noise(arm, np.zeros((4, 7)))
    with pytest.raises(InputError, match="path of five or more"):
        ex.path_noise(arm, np.zeros(7))
    with pytest.raises(InputError, match="ends='fixd' is not one of .*Did you mean 'fixed'"):
        ex.path_noise(arm, np.zeros((6, 7)), ends="fixd")
    with pytest.raises(InputError, match="duration=0 must be a finite time"):
        ex.path_noise(arm, np.zeros((6, 7)), duration=0)
    with pytest.raises(InputError, match="steps=3 must be an integer of at least 4"):
        ex.smooth_paths(arm, np.zeros(7), np.zeros(7), 3)
    with pytest.raises(InputError, match="do not fit"):
        ex.smooth_paths(arm, np.zeros((2, 7)), np.zeros((3, 7)))
    with pytest.raises(InputError, match="q1"):
        ex.smooth_paths(arm, np.zeros(7), np.zeros(5))
    system = pinned_arm()
    for sample in (ex.path_noise, ex.smooth_paths):
        with pytest.raises(InputError, match=r"opens closed loops[\s\S]*system.assemble\(q\)"):
            sample(system, np.zeros((6, 3)))


def test_what_the_error_says_works():
    system = pinned_arm()
    ends = [system.assemble([1.0, -1.0, -1.5 + x]) for x in (0.0, 0.1)]
    q = ex.smooth_paths(system.model, *ends, 6, kT=1e-4, seed=0)
    q = system.assemble(q)
    assert np.abs(system.residual(q)).max() < 1e-8
