"""The mechanism: bodies, joints, frames and their tree, frozen once built."""

from phipsi.model import joints
from phipsi.model.body import Body, Frame
from phipsi.model.builder import ModelBuilder
from phipsi.model.inertia import SpatialInertia
from phipsi.model.joint import Joint
from phipsi.model.layout import JointView
from phipsi.model.model import Model
from phipsi.model.pose import Pose
from phipsi.model.tree import Tree

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
