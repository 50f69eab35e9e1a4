"""The mechanisms on which every identity is proved: trees of all joint types."""

from __future__ import annotations

from random_models import ALL, branching, chain, model_from_parents, random_tree, star

from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.model import Model

MODELS: dict[str, Model] = {
    "revolute chain": chain(4, 21, ["revolute"]),
    "revolute tree": branching(6, 22, ["revolute"], armature=True),
    "joints with one dof": random_tree(23, 6, ["revolute", "prismatic", "helical"]),
    "chain": chain(4, 1),
    "serial with a free joint inside": chain(3, 3, ["revolute", "free", "planar"]),
    "star": star(5, 2),
    "branching": branching(6, 2),
    "forest": random_tree(4, 6, n_roots=2),
    "free base": model_from_parents([-1, 0, 0, 2, 2], 5, ["free", *ALL[:3], "universal"]),
    "two free bases": model_from_parents(
        [-1, 0, -1, 2, 2], 12, ["free", "planar", "free", *ALL[2:4]]
    ),
    "all joint types": model_from_parents([-1, 0, 0, 1, 1, 2, 2, 3, 4, 5], 6, ALL),
    "chain with rotors": chain(4, 7, armature=True),
    "branching with rotors": branching(6, 8, armature=True),
    "forest with rotors": random_tree(9, 6, n_roots=3, armature=True),
    "free base with rotors": model_from_parents(
        [-1, 0, 0, 1], 10, ["free", "revolute", "spherical", "prismatic"], armature=True
    ),
    "one body": chain(1, 11, ["universal"]),
    "nothing": ModelBuilder().build(),
}
