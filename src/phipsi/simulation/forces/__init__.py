"""Force elements for `simulate(forces=[...])`: springs, dampers, stops, fields, and your own.

Joint elements give efforts in the directions of v; body elements give forces on bodies, at their
origins in body axes, as `f_ext` everywhere in the library. Conservative elements also give their
energy, which `Trajectory.energy` contains.
"""

from phipsi.package_state import offer
from phipsi.simulation.forces.force import Force as Force, State as State

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "body_forces": "GravityField PointSpring Rope Wrench",
        "elastic_couplings": "ElasticCoupling",
        "frame_forces": "Bushing TorsionSpring WindDrag",
        "joint_forces": "JointDamper JointFriction JointSpring StribeckFriction from_model",
        "joint_limits": "JointLimit",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
