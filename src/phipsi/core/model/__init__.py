"""The mechanism: bodies, joints, frames and their tree, frozen once built."""

from phipsi.core.model import joints
from phipsi.core.model.body import Body, Frame
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.joint import Joint
from phipsi.core.model.layout import JointView
from phipsi.core.model.model import Model
from phipsi.core.model.pose import Pose
from phipsi.core.model.tree import Tree

__all__ = [
    "Body",
    "Frame",
    "Joint",
    "JointView",
    "Model",
    "ModelBuilder",
    "Pose",
    "SpatialInertia",
    "Tree",
    "joints",
]
