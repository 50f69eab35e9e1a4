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
from phipsi.package_state import offer_within

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

__getattr__ = offer_within(
    __name__,
    {
        "argument_checks": (
            "all_finite as_floats as_list as_numbers entries_of finite first_not_finite flat_batch "
            "flattened floats_of is_array is_collection is_list is_mapping is_masked is_tuple "
            "kind_of plain_numbers surely_numbers whole_number"
        ),
        "attachments": (
            "Attachment BodyRecords Described Mount Picture Removal SystemAttachment Weld register"
        ),
        "body": "Description LimitsArgument",
        "capabilities": (
            "CAPABILITIES LABELS UNAFFECTED Refusal check_prescribed forest_of mechanism_of "
            "prescribed_message supports tree_of"
        ),
        "closure_names": "ends loop_bodies named",
        "closure_rows": (
            "closure_residual closure_row closure_row_along closure_row_rate relative_twist"
        ),
        "closures": "ANGULAR LINEAR NO_CLOSURES Closure ClosureSet closure_set",
        "compound_body": "CompoundBody CompoundPort compound_of compound_port_of reject_compound",
        "deflections": "bent_too_far",
        "dual": "Dual DualOps hinge_axes_along rate_of value_of",
        "edit": "with_armature",
        "entry_names": (
            "entry_names joint_units known_joints modal_rates place_name rates_of unit_texts"
        ),
        "entry_units": "entry_units",
        "flexible_hinge": "FlexibleHinge modal_amplitudes packed_inertia packed_port rates_of_rows",
        "flexible_inertia": "FlexibleInertia",
        "flexible_ports": "FlexibleShape Port",
        "fork_safe_lock": "ForkSafeLock",
        "joint": "ParamKind unit_axis",
        "joints": (
            "Composite Cylindrical Fixed Free Helical Planar Prismatic Revolute Spherical "
            "Translation Universal"
        ),
        "law_forms": "MOST_COORDINATES LawForm RowLaw",
        "plain_records": "checked_fields checked_items encoded",
        "points": "ANY_POINTS AXES PointSet checked_axes point_set",
        "pose": "plane_axes rotation_of_rpy rpy_of_rotation",
        "rate_rows": "RateRows rate_rows_of",
        "scalar_linalg": "ScalarOps as_array dot is_zero rotation_of_quaternion",
        "serialize": "register_joint",
        "tree": "WORLD WORLD_NAME",
        "validate": "check_body",
        "value": "ALL_GROUPS PlainValue Value check_text check_type fill plain read_only vector3",
        "weld_fixed_joints": "parent_indices weld",
    },
)
