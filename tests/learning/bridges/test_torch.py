"""Programs, algorithms and runs as functions of tensors, with gradients."""

import numpy as np
import pytest
import torch
from differences import slope
from held_arm import KP, simulator
from known_systems import pinned_four_bar
from random_models import model_from_parents

import phipsi as pp
import phipsi.torch as pt
from phipsi.operators import P, V, mass_matrix, tau

# of PyTorch about itself
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def model():
    kinds = ["free", "spherical", "revolute", "planar"]
    return model_from_parents([-1, 0, 1, 0], 1, kinds)


def tensors(model, batch=(), seed=0, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    q = model.random_configuration(rng, batch)
    arrays = (q, *rng.standard_normal((2, *batch, model.nv)))
    return [torch.tensor(x, dtype=dtype, requires_grad=True) for x in arrays]


def test_values(model):
    q, v, u = tensors(model, (3,))
    out = pt.forward_dynamics(model, q, v, u)
    want = pp.forward_dynamics(model, *(x.detach().numpy() for x in (q, v, u)))
    np.testing.assert_allclose(out.detach().numpy(), want, rtol=1e-12)
    assert pt.function(mass_matrix.inv @ tau, model).inputs == ("q", "tau")
    poses = pt.poses(model, q, [model.body_names[-1]])
    assert poses.shape == (3, 1, 4, 4)


def test_gradcheck(model):
    q, v, u = tensors(model, (2,))
    frame = [model.body_names[-1]]
    for function, inputs in [
        (lambda *x: pt.forward_dynamics(model, *x), (q, v, u)),
        (lambda *x: pt.inverse_dynamics(model, *x), (q, v, u)),
        (lambda *x: pt.kinetic_energy(model, *x), (q, v)),
        (lambda x: pt.poses(model, x, frame), (q,)),
        (pt.function(mass_matrix.inv @ tau, model), (q, u)),
    ]:
        assert torch.autograd.gradcheck(function, inputs, atol=1e-5, rtol=1e-5)
        assert torch.autograd.gradcheck(
            function, inputs, atol=1e-5, rtol=1e-5, check_forward_ad=True, check_backward_ad=False
        )


def test_broadcasting_and_float32(model):
    q, v, u = tensors(model, (4,))
    one = v[0].detach().clone().requires_grad_()
    pt.forward_dynamics(model, q, one, u[:1]).sum().backward()
    each = v[0].detach().expand(4, -1).clone().requires_grad_()
    pt.forward_dynamics(model, q, each, u[:1].expand(4, -1)).sum().backward()
    assert torch.allclose(one.grad, each.grad.sum(0), rtol=1e-10)
    single = tensors(model, (4,), dtype=torch.float32)
    out = pt.forward_dynamics(model, *single)
    assert out.dtype == torch.float32
    out.sum().backward()
    assert single[0].grad.dtype == torch.float32


def functions(model):
    """Every function, with the arrays that it takes."""
    q, v, u = (x.detach().numpy() for x in tensors(model, (3,)))
    efforts = np.random.default_rng(1).standard_normal((3, 5, model.nv))
    frame = [model.body_names[-1]]
    return {
        "forward_dynamics": (lambda *x: pt.forward_dynamics(model, *x), (q, v, u)),
        "inverse_dynamics": (lambda *x: pt.inverse_dynamics(model, *x), (q, v, u)),
        "kinetic_energy": (lambda *x: pt.kinetic_energy(model, *x), (q, v)),
        "poses": (lambda *x: pt.poses(model, *x, frame), (q,)),
        "function": (pt.function(mass_matrix.inv @ tau, model), (q, u)),
        "rollout": (lambda *x: pt.rollout(model, *x, 0.01, integrator="rk4")[1], (q, v, efforts)),
    }


def test_the_default_type(model):
    """float32: values and gradients are those of float64, to single precision."""
    assert torch.get_default_dtype() == torch.float32
    for name, (function, arrays) in functions(model).items():
        found = []
        for dtype in (torch.float64, torch.get_default_dtype()):
            given = [torch.tensor(x, dtype=dtype, requires_grad=True) for x in arrays]
            out = function(*given)
            (out**2).sum().backward()
            results = [out, *(x.grad for x in given)]
            assert all(x.dtype == dtype for x in results), name
            found.append([x.detach().numpy() for x in results])
        for want, got in zip(*found, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-6 * np.abs(want).max(), err_msg=name)


def test_lists_and_whole_numbers_become_the_default_type():
    arm = pp.examples.planar_arm(2)
    want = pp.forward_dynamics(arm, [1, 2], [0, 1], [0, 0])
    for given in ([1, 2], [0, 1], [0, 0]), [torch.tensor(x) for x in ([1, 2], [0, 1], [0, 0])]:
        out = pt.forward_dynamics(arm, *given)
        assert out.dtype == torch.float32
        np.testing.assert_allclose(out.numpy(), want, rtol=1e-6)


def test_vmap(model):
    q, v, u = (x.detach() for x in tensors(model, (5,)))
    whole = pt.forward_dynamics(model, q, v, u[0])
    mapped = torch.func.vmap(lambda a, b: pt.forward_dynamics(model, a, b, u[0]), in_dims=(0, 1))(
        q, v.T
    )
    assert torch.allclose(mapped, whole, rtol=1e-12)
    gradients = torch.func.vmap(
        torch.func.grad(lambda a, b: pt.kinetic_energy(model, a, b), argnums=1)
    )(q, v)
    momenta = torch.einsum("kij,kj->ki", torch.tensor(pp.mass_matrix(model, q.numpy())), v)
    assert torch.allclose(gradients, momenta, rtol=1e-9)


def test_transforms_of_the_default_type(model):
    q, v, u = (x.detach() for x in tensors(model, (3,), dtype=torch.float32))
    whole = pt.forward_dynamics(model, q, v, u)
    one = lambda *x: pt.forward_dynamics(model, *x)  # noqa: E731
    assert torch.allclose(torch.func.vmap(one)(q, v, u), whole)
    _, change = torch.func.jvp(lambda x: one(q, v, x), (u,), (torch.ones_like(u),))
    inverse = torch.from_numpy(pp.mass_matrix_inverse(model, q.double().numpy())).float()
    assert change.dtype == torch.float32
    assert torch.allclose(change, inverse.sum(-1), rtol=1e-4, atol=1e-5)


def test_rollout_and_an_optimiser():
    """L-BFGS finds efforts that bring the end of an arm to a place, at rest.

    It begins with efforts that hold the arm at the start. From zero the arm falls, and the line
    search tries efforts of 200 N·m, for which the last digits of a gradient decide where it goes
    on; how far it comes in a number of evaluations is then an accident of rounding.
    """
    arm = pp.examples.planar_arm(2)
    q0, v0 = torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    held = torch.from_numpy(pp.gravity_forces(arm, np.zeros(2)))
    efforts = held.expand(40, 2).clone().requires_grad_()
    goal = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)

    def cost(u):
        q, v = pt.rollout(arm, q0, v0, u, 0.02, integrator="rk4")
        tip = pt.poses(arm, q[-1], ["tip"])[0, :3, 3]
        return ((tip - goal) ** 2).sum() + 1e-3 * (v[-1] ** 2).sum()

    def is_exact():
        (gradient,) = torch.autograd.grad(cost(efforts), efforts)
        at, d = efforts.detach(), torch.from_numpy(np.random.default_rng(0).normal(size=(40, 2)))
        by_hand = slope(lambda s: float(cost(at + s * d)), 1e-3)
        return float((gradient * d).sum()) == pytest.approx(by_hand, rel=1e-7, abs=1e-9)

    assert is_exact()
    optimiser = torch.optim.LBFGS(
        [efforts], max_iter=200, max_eval=400, line_search_fn="strong_wolfe"
    )

    def closure():
        optimiser.zero_grad()
        value = cost(efforts)
        value.backward()
        return value

    before = float(cost(efforts).detach())
    optimiser.step(closure)
    assert float(cost(efforts).detach()) < 1e-8 * before
    assert is_exact()
    small = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda u: pt.rollout(arm, q0, v0, u, 0.05), (small,))


def test_second_derivatives_are_refused(model):
    q, v, _ = tensors(model)
    (first,) = torch.autograd.grad(pt.kinetic_energy(model, q, v), v, create_graph=True)
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        first.sum().backward()


def test_articulated_quantities_and_loops():
    """Forward and reverse mode of vectors without a derivative in the algebra; systems."""
    model = model_from_parents([-1, 0, 1], 1, ["revolute", "universal", "prismatic"])
    q, v, _ = tensors(model, (2,))
    momenta = pt.function(P @ V, model)
    assert torch.autograd.gradcheck(momenta, (q, v), atol=1e-5, rtol=1e-5, check_forward_ad=True)
    system, q = pinned_four_bar()
    q0 = torch.tensor(q)
    rest = torch.zeros(3, dtype=torch.float64)
    efforts = torch.ones(4, 3, dtype=torch.float64, requires_grad=True)

    def end(u):
        _, v = pt.rollout(system, q0, rest, u, 0.02, integrator="rk4")
        return (v[-1] ** 2).sum() + pt.forward_dynamics(system, q0, rest, u[0]).sum()

    assert torch.autograd.gradcheck(end, (efforts,), atol=1e-6, rtol=1e-6)


def test_complex_tensors_are_rejected():
    """Their imaginary parts would be lost."""
    arm = pp.examples.planar_arm(2)
    q = np.array([0.1, 0.2])
    with pytest.raises(pp.errors.InputError, match="v holds .*complex.*must be real"):
        pt.forward_dynamics(arm, q, q + 1j, q)


def test_a_simulator():
    """Gradients by the gains of a controller, in double precision and in the default type."""
    sim = simulator()
    wanted = sim.gradient(sim.initial_state(), np.zeros((10, 2)), 10, cotangents={"hold.cost": 1.0})
    for dtype, rtol in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
        kp = torch.tensor(KP, dtype=dtype, requires_grad=True)
        start, efforts = torch.zeros(2, dtype=dtype), torch.zeros((10, 2), dtype=dtype)
        cost = pt.simulator_rollout(
            sim, start, start, efforts, record=("hold.cost",), parameters={"hold.kp": kp}
        )
        cost.sum().backward()
        assert cost.dtype == kp.grad.dtype == dtype
        np.testing.assert_allclose(kp.grad.numpy(), wanted.parameters["hold.kp"], rtol=rtol)


def test_a_scalar_parameter_without_a_batch():
    """A gain as a tensor without axes; of one record the result is a tensor."""
    arm = pp.examples.planar_arm(2)
    sim = pp.Simulator(arm, [pp.law(lambda q, v, kp: -kp * q - v, name="hold").bind(kp=12.5)])
    kp = torch.tensor(12.5, dtype=torch.float64, requires_grad=True)
    q0, v0 = torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    efforts = torch.zeros((20, 2), dtype=torch.float64)
    q = pt.simulator_rollout(sim, q0, v0, efforts, record=["q"], parameters={"hold.kp": kp})
    assert q.shape == (21, 2)
    q.sum().backward()
    state = sim.initial_state(np.zeros(2), np.ones(2))
    wanted = sim.gradient(state, np.zeros((20, 2)), 20, cotangents={"q": 1.0})
    np.testing.assert_allclose(kp.grad.numpy(), wanted.parameters["hold.kp"], rtol=1e-12)
