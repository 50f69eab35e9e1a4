"""Linearisations against derivatives of the motion itself, closed forms and SciPy."""

import numpy as np
import pytest
from amounts import seeds
from comparers import proportional as close
from differences import slope
from known_systems import pinned_four_bar as four_bar
from numpy.testing import assert_allclose
from random_models import ALL, chain, model_from_parents, random_state as state
from scipy.linalg import expm

import phipsi as pp
from phipsi.errors import InputError
from phipsi.simulation.analysis.step_derivatives import step_derivatives

pytestmark = pytest.mark.usefixtures("interpreted")  # one evaluation for each of many mechanisms


# ---- trees ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(4))
def test_matrices_are_rates_of_the_flow(seed):
    """A and B are the derivatives by time of the derivatives of a motion, on all joint types."""
    model = model_from_parents([-1, 0, 1, 1, 3, -1, 5], seed, ALL, armature=True)
    q, v, tau = state(model, seed)
    found = pp.linearize(model, q, v, tau)

    def flow(t):
        return np.hstack(step_derivatives(model, q, v, tau, t, integrator="rk4"))

    close(np.hstack([found.A, found.B]), slope(flow, 2e-3), 1e-8)
    close(found.vdot, pp.forward_dynamics(model, q, v, tau), 1e-12)


def test_damping_inputs_and_names():
    model = chain(3, 1, ["revolute", "spherical", "prismatic"], damping=True)
    q, v, tau = state(model)
    d = np.array(model.damping)
    assert d.any()
    names = list(model.joint_names)
    found = pp.linearize(model, q, v, tau, damping=True, inputs=[names[2], names[0]], outputs=[])
    same = pp.linearize(model, q, v, tau, damping=d)
    close(found.A, same.A, 1e-15)
    whole = same.B
    close(found.B, whole[:, [4, 0]], 1e-15)

    def acceleration(s):
        return pp.forward_dynamics(model, q, v + s * dv, tau - d * (v + s * dv))

    for dv in np.eye(5):
        i = int(dv.argmax())
        close(found.A[5:, 5 + i], slope(acceleration), 1e-8)
    assert found.input_names == (f"tau[{names[2]}]", f"tau[{names[0]}]")
    assert found.state_names[1] == f"q[{names[1]}.0]" and found.state_names[9] == f"v[{names[2]}]"
    assert found.C.shape == (0, 10) and found.D.shape == (0, 2)


def test_outputs():
    model = model_from_parents([-1, 0, 1, 2], 3, ["free", "revolute", "spherical", "prismatic"])
    q, v, tau = state(model, 3)
    name = model.joint_names[1]
    point = (model.body_names[-1], (0.1, -0.2, 0.3))
    wanted = ["q", "v", f"q[{name}]", f"v[{name}]", ("position", point), ("velocity", point)]
    found = pp.linearize(model, q, v, tau, outputs=wanted)
    n = model.nv
    s = model.v_slice(name)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(2 * n)
    y = found.C @ x
    close(y[: 2 * n], x)
    close(y[2 * n : 2 * n + 2], [x[s.start], x[n + s.start]])

    def place(t):
        at = model.integrate(q, t * x[:n])
        body, pose = model.resolve_point(point)
        world = pp.poses(model, at)[body]
        return world[:3, 3] + world[:3, :3] @ pose.translation

    def velocity(t):
        at = model.integrate(q, t * x[:n])
        return pp.jacobian(model, at, [point])[3:] @ (v + t * x[n:])

    close(y[2 * n + 2 : 2 * n + 5], slope(place))
    close(y[2 * n + 5 :], slope(velocity))
    assert found.output_names[-1] == f"velocity[{point[0]}, z]"
    assert len(found.output_names) == len(found.C) and not found.D.any()


def test_holding_efforts_and_equilibrium():
    arm = pp.examples.seven_joint_arm()
    q = np.array([0.1, 0.4, 0.2, 0.7, 0.3, 0.5, 0.1])
    held = pp.linearize(arm, q)
    close(held.tau, pp.gravity_forces(arm, q), 1e-12)
    assert held.residual < 1e-10 and "accelerates" not in repr(held)
    pp.linearize(arm, q, equilibrium=True)
    weak = pp.linearize(arm, q, inputs=arm.joint_names[:3])
    assert weak.residual > 1 and "accelerates by" in repr(weak)
    with pytest.raises(InputError, match="not an equilibrium: joint .* accelerates by"):
        pp.linearize(arm, q, inputs=arm.joint_names[:3], equilibrium=True)


def test_refusals():
    arm = pp.examples.planar_arm(2)
    for arguments, message in [
        ({"q": [0.0]}, "q has shape"),
        ({"q": [0.0, np.nan]}, "not finite"),
        ({"q": [0, 0], "tau": [[0, 0]]}, "one at a time"),
        ({"q": [0, 0], "inputs": ["joint3"]}, "no joint 'joint3'"),
        ({"q": [0, 0], "outputs": ["tau"]}, "output 'tau'"),
        ({"q": [0, 0], "outputs": ["q[elbow]"]}, "no joint 'elbow'"),
        ({"q": [0, 0], "damping": [1.0]}, "damping has shape"),
        ({"q": [0, 0], "independent": ["joint1"]}, "for a System"),
    ]:
        with pytest.raises(InputError, match=message):
            pp.linearize(arm, **arguments)
    with pytest.raises(InputError, match="takes the model first"):
        pp.linearize("arm", [0, 0])


# ---- what the object does ------------------------------------------------------------------------


def pendulum(n=2, **options):
    down = np.zeros(n)
    down[0] = -np.pi / 2
    return pp.linearize(pp.examples.planar_arm(n), down, **options)


def test_poles_are_natural_frequencies():
    """Two rods that hang: eigenvalues of ℳ⁻¹ K with the matrices written by hand."""
    found = pendulum(outputs=["q", "v"])
    g = 9.81
    M = np.array([[8 / 3, 5 / 6], [5 / 6, 1 / 3]])
    K = np.array([[2 * g, g / 2], [g / 2, g / 2]])
    squares = np.linalg.eigvals(np.linalg.solve(M, K))
    frequencies = np.sort(np.sqrt(squares.real))
    size, ratio = found.frequencies()
    close(np.sort(size)[::2], frequencies)
    assert_allclose(ratio, 0, atol=1e-12)
    assert not found.is_stable and pendulum(damping=[0.1, 0.1]).is_stable
    assert found.is_controllable() and found.is_observable()
    one = pendulum(inputs=["joint1"], outputs=["q[joint2]"])
    assert one.is_controllable() and one.is_observable()
    still = pp.linearize(pp.examples.planar_arm(2).with_gravity((0, 0, 0)), [0, 0], outputs=["v"])
    assert not still.is_observable()
    assert (still.frequencies()[1] == 1).all()


def test_discrete_is_exact():
    from scipy import signal  # here: only one of the processes needs it

    found = pendulum(damping=[0.2, 0.1], outputs=["q", ("position", "tip")])
    dt = 0.13
    sampled = found.discrete(dt)
    n = len(found.A)
    close(sampled.A, expm(found.A * dt), 1e-12)
    Ad, Bd, Cd, Dd, _ = signal.cont2discrete((found.A, found.B, found.C, found.D), dt)
    close(sampled.A, Ad, 1e-12)
    close(sampled.B, Bd, 1e-12)
    close(sampled.C, Cd, 1e-12)
    close(sampled.D, Dd, 1e-12)
    assert sampled.is_stable and sampled.dt == dt and "dt = 0.13 s" in repr(sampled)
    order = np.argsort(found.frequencies()[0])
    close(np.sort(sampled.frequencies()[0]), found.frequencies()[0][order], 1e-9)
    assert n == 4
    with pytest.raises(InputError, match="discrete already"):
        sampled.discrete(0.1)
    with pytest.raises(InputError, match="dt=0.0 must be a finite number of seconds, more than 0"):
        found.discrete(0.0)


@pytest.mark.parametrize("delay", [1, 3])
def test_delayed_inputs_act_later(delay):
    """The response to an input is that of the system without delay, some samples later."""
    found = pendulum(damping=[0.2, 0.1], outputs=["q"])
    sampled, late = found.discrete(0.05), found.discrete(0.05, delay=delay)
    u = np.random.default_rng(0).standard_normal((12, 2))
    x, y = np.array([0.1, -0.2, 0.3, 0.0]), np.zeros(4 + 2 * delay)
    y[:4] = x
    for k in range(12):
        assert_allclose(late.C @ y + late.D @ u[k], sampled.C @ x, rtol=1e-12, atol=1e-15)
        before = u[k - delay] if k >= delay else np.zeros(2)
        x = sampled.A @ x + sampled.B @ before
        y = late.A @ y + late.B @ u[k]
    assert late.state_names[4:6] == ("tau[joint1].delay1", "tau[joint2].delay1")
    assert late.state_names[-1] == f"tau[joint2].delay{delay}" and len(late.A) == 4 + 2 * delay
    size, ratio = late.frequencies()
    assert (ratio <= 1).all() and np.isinf(size).sum() >= 1
    with pytest.raises(InputError, match="delay=0.5 must be an integer number of samples"):
        found.discrete(0.05, delay=0.5)
    # a gain that is stable without the delay is not with a long one
    K = sampled.lqr(np.eye(4) * 1e3, np.eye(2))
    long = found.discrete(0.05, delay=6)
    wide = np.hstack([K, np.zeros((2, 12))])
    assert abs(np.linalg.eigvals(sampled.A - sampled.B @ K)).max() < 1
    assert abs(np.linalg.eigvals(long.A - long.B @ wide)).max() > 1
    stable = long.A - long.B @ long.lqr(np.eye(16), np.eye(2))
    assert abs(np.linalg.eigvals(stable)).max() < 1


def test_lqr_is_optimal():
    """No gain near it has a smaller cost, by the Lyapunov equation; and it stabilises."""
    from scipy.linalg import solve_continuous_lyapunov, solve_discrete_lyapunov

    arm = pp.examples.planar_arm(2)
    found = pp.linearize(arm, [np.pi / 2, 0.0], inputs=["joint1"])
    Q, R = np.diag([10.0, 10.0, 1.0, 1.0]), np.array([[0.5]])
    for system, lyapunov in (
        (found, lambda A, W: solve_continuous_lyapunov(A.T, -W)),
        (found.discrete(0.02), lambda A, W: solve_discrete_lyapunov(A.T, W)),
    ):
        K = system.lqr(np.diag(Q), 0.5)
        close(K, system.lqr(Q, R), 1e-12)

        def cost(K, system=system, lyapunov=lyapunov):
            return np.trace(lyapunov(system.A - system.B @ K, Q + K.T @ R @ K))

        rng = np.random.default_rng(0)
        for _ in range(20):
            assert cost(K + 1e-3 * rng.standard_normal(K.shape) * np.abs(K)) > cost(K) * (1 - 1e-12)
        moved = np.linalg.eigvals(system.A - system.B @ K)
        assert (moved.real < 0).all() if system.dt is None else (np.abs(moved) < 1).all()
        N = np.array([[0.3], [-0.2], [0.1], [0.4]])  # x* Q x + u* R u + 2 x* N u
        K = system.lqr(Q, R, N)

        def crossed(K, system=system, lyapunov=lyapunov, N=N):
            weight = Q + K.T @ R @ K - N @ K - K.T @ N.T
            return np.trace(lyapunov(system.A - system.B @ K, weight))

        for _ in range(20):
            near = K + 1e-3 * rng.standard_normal(K.shape) * np.abs(K)
            assert crossed(near) > crossed(K) * (1 - 1e-12)
        assert crossed(system.lqr(Q, R)) > crossed(K) * (1 + 1e-9)
    with pytest.raises(InputError, match=r"N has shape \(4,\), but must be \(4, 1\)"):
        found.lqr(Q, R, np.ones(4))
    with pytest.raises(InputError, match=r"\[\[Q, N\], \[N\*, R\]\] has the eigenvalue"):
        found.lqr(Q, R, 100 * np.ones((4, 1)))
    for Q, R, message in (
        (np.eye(3), 1, "a weight must be"),
        (-np.eye(4), 1, "Q has the eigenvalue -1"),
        (np.eye(4), 0, "R has the eigenvalue 0"),
        (np.triu(np.ones((4, 4))), 1, "Q must be symmetric"),
    ):
        with pytest.raises(InputError, match=message):
            found.lqr(Q, R)
    free = pp.linearize(arm.with_gravity((0, 0, 0)), [0.0, 0.3], inputs=["joint1"])
    with pytest.raises(pp.errors.SingularMatrixError, match=r"tau\[joint1\] do not reach"):
        free.lqr(1, 1)


def test_scipy_object():
    from scipy import signal  # here: only one of the processes needs it

    found = pendulum(outputs=["q"])
    theirs = found.to_scipy()
    assert isinstance(theirs, signal.StateSpace)
    for mine, other in ((found.A, theirs.A), (found.B, theirs.B), (found.C, theirs.C)):
        close(mine, other, 1e-15)
    t, x = np.linspace(0, 1, 20), np.array([0.1, -0.2, 0.3, 0.0])
    _, _, states = signal.lsim(theirs, np.zeros((20, 2)), t, X0=x)
    close(states[-1], expm(found.A) @ x)
    assert found.discrete(0.1).to_scipy().dt == 0.1


def test_control_object():
    control = pytest.importorskip("control")
    found = pendulum(outputs=["q"], damping=[0.1, 0.1])
    theirs = found.to_control()
    assert isinstance(theirs, control.StateSpace)
    assert tuple(theirs.state_labels) == found.state_names
    close(np.sort_complex(theirs.poles()), np.sort_complex(found.poles()), 1e-9)
    assert found.discrete(0.1).to_control().dt == 0.1
    servo = pp.laws.pid("joint1", 0.0, 10.0, 1.0)
    loop = pendulum(laws=[servo], inputs=["joint1", "pid.target"], outputs=["q"])
    named = loop.to_control()
    assert tuple(named.input_labels) == ("tau[joint1]", "pid_target")
    assert named.state_labels[-1] == "pid_integral[0]"
    base = pp.examples.free_flyer()
    ball = pp.linearize(base, base.neutral()).to_control()
    assert all("." not in x for x in (*ball.state_labels, *ball.input_labels))


# ---- loops ---------------------------------------------------------------------------------------


def spatial():
    """Two arms with ball joints that hold a bar together: a loop in space with curved joints."""
    kinds = ["revolute", "spherical", "revolute", "revolute", "revolute", "universal"]
    tree = model_from_parents([-1, 0, 1, -1, 3, 4], 2, kinds)
    last = tree.body_names[2], tree.body_names[5]
    ball = pp.constraints.Spherical(name="ball", a=(last[0], (0.3, 0, 0)), b=(last[1], (0, 0.3, 0)))
    system = pp.System(tree, [ball])
    q = None
    for seed in range(50):
        try:
            q = system.assemble(tree.random_configuration(seed))
            break
        except pp.errors.ConvergenceError:
            continue
    assert q is not None
    return system, q


def accelerations(system, q, v, tau):
    """vdot by the dense equations with multipliers."""
    M, G = pp.mass_matrix(system.model, q), system.jacobian(q)
    rows = len(G)
    whole = np.block([[M, G.T], [G, np.zeros((rows, rows))]])
    right = np.concatenate([tau - pp.bias_forces(system.model, q, v), -system.bias(q, v)])
    return np.linalg.lstsq(whole, right, rcond=1e-12)[0][: len(M)]


@pytest.mark.parametrize("make", [four_bar, spatial], ids=["four bar", "spatial"])
@pytest.mark.parametrize("moving", [False, True])
def test_loops(make, moving):
    """The chosen joints are moved, the loops closed again, and the accelerations compared."""
    system, q = make()
    tree = system.model
    rng = np.random.default_rng(0)
    tau = rng.standard_normal(tree.nv)
    damping = np.abs(rng.standard_normal(tree.nv))
    v = np.zeros(tree.nv)
    if moving:
        _, v = system.project(q, rng.standard_normal(tree.nv))
    found = pp.linearize(system, q, v, tau, damping=damping, outputs=["q", "v"])
    dofs = [n.partition("[")[2][:-1] for n in found.state_names[: len(found.A) // 2]]
    joints = zip(tree.joint_names, tree.joints, strict=True)
    whole = [f"{n}.{i}" if j.nv > 1 else n for n, j in joints for i in range(j.nv)]
    chosen = np.array([whole.index(d) for d in dofs])
    n = len(chosen)
    rest = np.setdiff1d(np.arange(tree.nv), chosen)
    assert n == system.mobility(q).mobility
    x = rng.standard_normal(2 * n)
    C = found.C

    def closed(s):
        """Chosen rates moved by s x along the manifold, the others found by Newton's method."""
        dq = np.zeros(tree.nv)
        dq[chosen] = s * x[:n]
        for _ in range(20):
            at = tree.integrate(q, dq)
            gap = system.residual(at)
            if np.abs(gap).max() < 1e-14:
                break
            step = difference_columns(system, q, dq, rest)
            dq[rest] -= np.linalg.lstsq(step, gap, rcond=None)[0]
        at = tree.integrate(q, dq)
        rates = np.zeros(tree.nv)
        rates[chosen] = v[chosen] + s * x[n:]
        G = system.jacobian(at)
        rates[rest] = np.linalg.lstsq(G[:, rest], -G[:, chosen] @ rates[chosen], rcond=None)[0]
        return dq, at, rates

    def measured(s):
        dq, at, rates = closed(s)
        vdot = accelerations(system, at, rates, tau - damping * rates)
        return np.concatenate([dq, rates, vdot[chosen]])

    by_hand = slope(measured, 2e-3)
    close(C @ x, by_hand[: 2 * tree.nv], 1e-8)
    close((found.A @ x)[n:], by_hand[2 * tree.nv :], 1e-8, 1.0)
    effort = rng.standard_normal(tree.nv)
    by_tau = accelerations(system, q, v, tau - damping * v + effort)
    close((found.B @ effort)[n:], (by_tau - found.vdot)[chosen], 1e-9, 1.0)
    close(found.vdot, accelerations(system, q, v, tau - damping * v), 1e-9)


def difference_columns(system, q, dq, rest):
    tree = system.model
    columns = []
    for i in rest:
        e = 1e-6 * np.eye(tree.nv)[i]
        up = system.residual(tree.integrate(q, dq + e))
        down = system.residual(tree.integrate(q, dq - e))
        columns.append((up - down) / 2e-6)
    return np.array(columns).T


def test_loops_are_held_by_the_driven_joint():
    system, q = four_bar()
    found = pp.linearize(system, q, inputs=["joint1"])
    assert found.A.shape == (2, 2) and found.B.shape == (2, 1)
    assert found.residual < 1e-9 and not found.tau[1:].any()
    by_name = pp.linearize(system, q, inputs=["joint1"], independent=["joint1"])
    assert by_name.state_names == ("q[joint1]", "v[joint1]")
    close(np.sort_complex(by_name.poles()), np.sort_complex(found.poles()), 1e-8)
    # at an equilibrium the poles are those of the potential energy along the motion
    with pytest.raises(InputError, match="does not determine the 1"):
        pp.linearize(system, q, independent=["joint1", "joint2"])
    with pytest.raises(InputError, match="q does not close the loops"):
        pp.linearize(system, q + 0.1)
    with pytest.raises(InputError, match="v violates the constraint velocities"):
        pp.linearize(system, q, np.ones(3))
    with pytest.raises(InputError, match="no joint 'crank'"):
        pp.linearize(system, q, independent=["crank"])
