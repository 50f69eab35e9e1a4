"""Every public function returns the shapes that its documentation states, alone and in batches."""

import inspect
import re

import input_trials as trials
import numpy as np
import pytest
from known_systems import on_ground, pinned_arm

import phipsi as pp

_RETURNS = re.compile(r"(?:\*\*Returns:\*\*|\bReturns -{3,})(.*?)(?:\*\*[A-Z]|>>>|\w -{3,}|$)")
_SHAPE = re.compile(r"\((\.\.\.[^()]*(?:\([^()]*\)[^()]*)*)\)")
_COUNTS = {
    "three arrays": 3, "`by_q`, `by_v`, `by_tau`": 3, "`by_q`, `by_v`, `by_vdot`": 3,
    "(epsilon, nu), each": 2,
}  # fmt: skip
BATCHES = [(), (4,), (2, 3)]
# Their model has contacts.
OF_CONTACTS = {"contact_forces"}
# Results with a class of their own, whose attributes state their shapes.
CLASSES = {"contact_step", "equilibrium", "hybrid_dynamics", "linearize", "rollout_gradient"}
CLASSES |= {"mode_shapes", "natural_frequencies"}  # of one configuration, as many as there are


def public() -> dict[str, object]:
    """Public functions by name, those of some public modules among them."""
    found = {}
    for place in trials.SPACES:
        listed = getattr(place, "__all__", vars(place))
        own = {n: getattr(place, n) for n in listed if not n.startswith("_")}
        home = place.__name__
        found |= {n: f for n, f in own.items() if getattr(f, "__module__", "").startswith(home)}
    found |= {name: getattr(pp, name) for name in pp.__all__}
    return {name: f for name, f in found.items() if inspect.isfunction(f)}


def stated(function: object) -> list[str]:
    """The shapes in the section "Returns", each without its parentheses, without alternatives."""
    text = _RETURNS.search(" ".join((function.__doc__ or "").split()))
    if text is None:
        return []
    main = re.split(r", or |; by |\. [A-Z]", text[1])[0]
    count = next((n for words, n in _COUNTS.items() if words in main), 1)
    return _SHAPE.findall(main) * count


def sizes(shape: str, batch: tuple[int, ...], numbers: dict[str, int]) -> tuple[int, ...]:
    """A stated shape as numbers: "..., 6 nC, nv" of a model."""
    axes = [axis.strip() for axis in shape.split(",")]
    assert axes[0] == "..."
    written = (
        re.sub(r"(\d) (\w)", r"\1*\2", axis.replace("len(points)", "nC")) for axis in axes[1:]
    )
    return (*batch, *(eval(axis, {"__builtins__": {}}, numbers) for axis in written))


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_functions_return_the_shapes_they_state(batch: tuple[int, ...]):
    model = trials.mechanism()
    numbers = {
        "n": model.n_bodies,
        "nv": model.nv,
        "nq": model.nq,
        "nC": 1,
        "steps": 2,
        "record_every": 1,
    }
    numbers |= {"rows": 0, "frames": 0}  # a tree has no constraints
    functions, tried = public(), set()
    for case in trials.functions_of_models(model, "", batch):
        name = case.name.strip()
        shapes = stated(functions[name])
        if name in CLASSES or name in OF_CONTACTS:
            continue
        assert shapes, f"{name} does not state the shape it returns"
        found = case.run()
        arrays = found if isinstance(found, tuple) else (found,)
        wanted = [sizes(shape, batch, numbers) for shape in shapes]
        assert [np.shape(x) for x in arrays] == wanted, name
        tried.add(name)
    assert len(tried) >= 40
    untried = {n for n, f in functions.items() if stated(f)} - tried
    assert untried <= {*OF_CONTACTS, "constrained_dynamics_derivatives", "constraint_forces",
                       "constraint_impulse", "delassus_matrix", "evaluate_dense"}  # fmt: skip


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_functions_of_contacts_return_the_shapes_they_state(batch: tuple[int, ...]):
    system = on_ground(pp.shapes.Box((0.2, 0.2, 0.2)))
    q = np.broadcast_to([1.0, 0, 0, 0, 0, 0, 0.1], (*batch, 7))
    for name in OF_CONTACTS:
        (shape,) = stated(getattr(pp, name))
        found = getattr(pp, name)(system, q, np.zeros(6), np.zeros((*batch, 6)))
        assert found.shape == sizes(shape, batch, {"k": 4}), name


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_functions_of_constraints_return_the_shapes_they_state(batch: tuple[int, ...]):
    system = pinned_arm(closure="Spherical")
    q = np.broadcast_to(system.assemble([1.0, -1.0, -1.5]), (*batch, 3))
    zero = np.zeros((*batch, 3))
    numbers = {"rows": system.n_rows, "nv": system.nv}
    for name, more in (
        ("constraint_forces", (zero, zero)),
        ("constraint_impulse", (zero,)),
        ("delassus_matrix", ()),
    ):
        found = getattr(pp, name)(system, q, *more)
        arrays = found if isinstance(found, tuple) else (found,)
        shapes = stated(getattr(pp, name))
        wanted = [sizes(shape, batch, numbers) for shape in shapes]
        assert [np.shape(x) for x in arrays] == wanted, name


def test_annotations_say_what_is_returned():
    """No bare `Any`: an array, a named result, or what else it is."""
    for name, function in public().items():
        returned = inspect.signature(function).return_annotation
        assert returned not in (inspect.Signature.empty, "Any"), f"{name} returns {returned}"


def test_the_reader_of_shapes_is_awake():
    def wrong() -> None:
        """A. **Returns:** q (..., nv, 6 nC) and v (..., steps // every + 1). **Cost:** (..., 9)."""

    assert stated(wrong) == ["..., nv, 6 nC", "..., steps // every + 1"]
    assert sizes("..., nv, 6 nC", (2,), {"nv": 3, "nC": 2}) == (2, 3, 12)
    assert sizes("...", (2,), {}) == (2,)
