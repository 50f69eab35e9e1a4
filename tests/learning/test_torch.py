"""Programs and algorithms as functions of tensors; runs where PyTorch is installed."""

import numpy as np
import pytest
from known_systems import pinned_four_bar
from random_models import model_from_parents

import phipsi as pp
from phipsi.operators import P, V, mass_matrix, tau

torch = pytest.importorskip("torch", reason="needs PyTorch")
import phipsi.torch as pt  # noqa: E402

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


def test_rollout_and_an_optimiser():
    """Gradient descent on the efforts brings the end of an arm to a place."""
    arm = pp.examples.planar_arm(2)
    q0, v0 = torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    efforts = torch.zeros(40, 2, dtype=torch.float64, requires_grad=True)
    goal = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)

    def cost():
        q, v = pt.rollout(arm, q0, v0, efforts, 0.02, integrator="rk4")
        tip = pt.poses(arm, q[-1], ["tip"])[0, :3, 3]
        return ((tip - goal) ** 2).sum() + 1e-3 * (v[-1] ** 2).sum()

    optimiser = torch.optim.LBFGS([efforts], max_iter=60, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        value = cost()
        value.backward()
        return value

    before = float(cost().detach())
    optimiser.step(closure)
    assert float(cost().detach()) < 1e-4 * before
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
