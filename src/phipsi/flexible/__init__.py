"""Where modes come from: beams, matrices of finite elements, meshes, points with mass.

The functions return plain arrays; `FlexibleInertia` (model/flexible_inertia.py) checks and keeps
them. SciPy and readers of meshes are loaded when they are used.
"""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "finite_elements": "mesh_matrices",
        "vibration": "Vibrations energy_shares natural_frequencies",
    },
)
