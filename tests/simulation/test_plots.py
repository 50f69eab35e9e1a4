"""What figures of trajectories say."""

from typing import Any

import numpy as np
import pytest

import phipsi as pp


@pytest.fixture(autouse=True)
def plt():
    """Imported by the process that runs these tests; no figures are left."""
    pytest.importorskip("matplotlib").use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    yield pyplot
    pyplot.close("all")


def arm(*joints: str) -> pp.Model:
    builder, parent = pp.ModelBuilder(), "world"
    rod = pp.SpatialInertia(1.0, (0.5, 0, 0), 0.1)
    for i, name in enumerate(joints):
        builder.add_body(
            f"link{i}",
            parent=parent,
            joint=pp.joints.Revolute((0, 1, 0)),
            joint_name=name,
            placement=pp.Pose(translation=(1.0 * (i > 0), 0, 0)),
            inertia=rod,
        )
        parent = f"link{i}"
    return builder.build()


ARM = arm("shoulder", "elbow")


def drawn(figure):
    figure.canvas.draw()
    return figure.axes


def test_a_rollout_is_drawn_as_its_trajectory_is():
    sim = pp.Simulator(ARM, dt=1e-2)
    run = sim.rollout(sim.initial_state([2.3, 0.2]), steps=20)
    first, other = drawn(run.plot("elbow"))[0], drawn(run.trajectory().plot("elbow"))[0]
    np.testing.assert_array_equal(first.lines[0].get_ydata(), other.lines[0].get_ydata())
    many = sim.rollout(sim.initial_state(np.zeros((3, 2))), steps=2)
    assert many.plot(index=1) is not None
    with pytest.raises(pp.errors.PhipsiError, match=r"run\.trajectory\(0\)"):
        many.plot()


def test_the_axis_of_a_conserved_energy_can_be_read():
    """The change is drawn, and the label says from what: no "1e-9−2.512e1" over the axis."""
    run = pp.simulate(ARM, [2.3, 0.2], [0, 0], 1.0)
    last = drawn(run.plot())[-1]
    assert last.yaxis.get_major_formatter().offset == 0
    first = f"E(0) = {run.energy[0]:.6g} J".replace("-", "−")
    assert last.get_ylabel() == f"energy − E(0)  (J)\n{first}"
    np.testing.assert_array_equal(last.lines[0].get_ydata(), run.energy - run.energy[0])


def test_other_energies_are_drawn_as_they_are():
    damped = pp.simulate(ARM, [2.3, 0.2], [0, 0], 1.0, forces=pp.forces.JointDamper(None, 0.5))
    last = drawn(damped.plot())[-1]
    assert last.get_ylabel() == "energy  (J)"
    np.testing.assert_array_equal(last.lines[0].get_ydata(), damped.energy)


def test_rounding_is_not_magnified():
    """A joint that stays where it is but for rounding looks so."""
    t = np.linspace(0, 1, 50)
    wobble = 1e-12 * np.sin(40 * t)[:, None]
    run = pp.Trajectory(ARM, t, 1.2345 + wobble * [1, 2], wobble * [1, 2], 7.5 + wobble * [1, 2])
    axes = drawn(run.plot())
    assert all(axis.yaxis.get_major_formatter().offset == 0 for axis in axes)
    for axis in (axes[0], axes[2]):
        low, high = axis.get_ylim()
        assert low < axis.lines[0].get_ydata()[0] < high and high - low > 0.1
    low, high = axes[1].get_ylim()  # rates have nothing to be small against
    assert high - low < 1e-11
    still = pp.Trajectory(
        ARM, t, 1e-4 * wobble * [1, 2], 0 * wobble * [1, 2], 7.5 + 0 * wobble * [1, 2]
    )
    assert drawn(still.plot())[0].get_ylim() == (-1, 1)  # unless they are rounding of nothing


def test_names_are_written_as_they_are():
    from matplotlib import cbook

    names = ["_hidden", "$x^2$", "cost_$"]
    axis = drawn(pp.simulate(arm(*names), [0, 0, 0], [0, 0, 0], 0.1).plot())[0]
    shown = [text.get_text() for text in axis.get_legend().get_texts()]
    assert [text.strip().replace(r"\$", "$") for text in shown] == names
    assert not any(text.startswith("_") for text in shown)  # these matplotlib leaves out
    assert not any(cbook.is_math_text(text) for text in shown)


def test_notebooks_draw_a_figure_once(plt: Any):
    """IPython asks for the result of a cell, and at its end for every figure that pyplot has.

    NotImplementedError is the answer with which it draws the figure as usual.
    """
    figure = pp.simulate(ARM, [0, 0], [0, 0], 0.1).plot()
    assert figure.number in plt.get_fignums()  # plt.show() in a script shows it
    with pytest.raises(NotImplementedError):
        figure._ipython_display_()
    assert figure._ipython_display_() is None
    plt.close(figure)
    with pytest.raises(NotImplementedError):  # a later cell that shows it again
        figure._ipython_display_()
