"""A four-bar with a spring and a motor, as a page that moves in the browser.

The crank is driven by a controller that runs 200 times a second; a spring pulls the coupler. On the
page the loop stays closed whatever is done to it: move a slider, drag a body, change the speed of
the motor or the stiffness of the spring while it runs. The first 500 steps on the page are those of
`rollout` here, bit for bit.

    python examples/live_page.py [page.html]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import phipsi as pp


@pp.law
def motor(q, v, speed, gain):
    """A motor that keeps the speed of the crank, rad/s."""
    return np.concatenate([gain * (speed - v[:1]), np.zeros(2)])


def four_bar() -> pp.System:
    """Crank, coupler and rocker in a plane; the rocker's end is pinned to the ground."""
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    parent, reach = "world", 0.0
    for name, length in (("crank", 0.3), ("coupler", 0.9), ("rocker", 0.7)):
        inertia = pp.SpatialInertia(
            2.0 * length, (length / 2, 0, 0), np.diag([1e-3, 1, 1]) * length**3 / 6
        )
        joint, place = pp.joints.Revolute((0, 0, 1)), pp.Pose(translation=(reach, 0, 0))
        builder.add_body(name, parent=parent, joint=joint, placement=place, inertia=inertia)
        parent, reach = name, length
    ends = {"a": ("rocker", (0.7, 0, 0)), "b": ("world", (0.8, 0, 0))}
    return pp.System(builder.build(), [pp.constraints.Revolute((0, 0, 1), name="pin", **ends)])


def main(path: Path) -> None:
    """Write the page, and say what happens on it first."""
    system = four_bar()
    spring = pp.forces.PointSpring(
        ("coupler", (0.45, 0, 0)), ("world", (0.4, 1.2, 0)), stiffness=20.0, rest_length=0.5
    )
    laws = [motor.bind(speed=3.0, gain=4.0).sampled(rate=200.0), spring]
    sim = pp.Simulator(system, laws, dt=1e-3, reproducible=True)
    q = system.assemble([1.0, -0.9, -1.5])
    run = sim.rollout(sim.initial_state(q), steps=500, record_every=500)
    page = pp.live_page(sim, path, q=q, title="A four-bar with a motor and a spring")
    print(f"after 500 steps: q = {run.q[-1].round(6)}")
    print(f"the loop is open by {np.abs(system.residual(run.q[-1])).max():.0e} m")
    print(f"{page.name}: {page.stat().st_size / 1e6:.1f} MB; open it in a browser")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder) / "four-bar.html")
