"""A loop of two beams that closes on a port."""

import numpy as np

import phipsi as pp

BEAM = pp.FlexibleInertia.beam(1.0, 1.0, EI=50.0, modes=0, rotary_inertia=1e-3)


def loop_of_beams():
    """Two beams in a row, the end of the second on a pin."""
    builder = pp.ModelBuilder()
    builder.add_body("first", joint=pp.joints.Revolute((0, 0, 1)), inertia=BEAM)
    builder.add_body(
        "second", parent="first", port="tip", joint=pp.joints.Revolute((0, 0, 1)), inertia=BEAM
    )
    builder.add_frame("end", "second", port="tip")
    pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="end", b=("world", (1.2, 0, 0)))
    return pp.System(builder.build(), [pin])


SYSTEM = loop_of_beams()
START = SYSTEM.model.neutral()
START[[0, 5]] = np.arccos(0.6), -2 * np.arccos(0.6)
