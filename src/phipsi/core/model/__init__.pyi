"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.model import joints
from phipsi.core.model.argument_checks import all_finite as all_finite
from phipsi.core.model.argument_checks import as_floats as as_floats
from phipsi.core.model.argument_checks import as_list as as_list
from phipsi.core.model.argument_checks import as_numbers as as_numbers
from phipsi.core.model.argument_checks import entries_of as entries_of
from phipsi.core.model.argument_checks import finite as finite
from phipsi.core.model.argument_checks import first_not_finite as first_not_finite
from phipsi.core.model.argument_checks import flat_batch as flat_batch
from phipsi.core.model.argument_checks import floats_of as floats_of
from phipsi.core.model.argument_checks import is_array as is_array
from phipsi.core.model.argument_checks import is_collection as is_collection
from phipsi.core.model.argument_checks import is_list as is_list
from phipsi.core.model.argument_checks import is_mapping as is_mapping
from phipsi.core.model.argument_checks import is_masked as is_masked
from phipsi.core.model.argument_checks import is_tuple as is_tuple
from phipsi.core.model.argument_checks import kind_of as kind_of
from phipsi.core.model.argument_checks import plain_numbers as plain_numbers
from phipsi.core.model.argument_checks import surely_numbers as surely_numbers
from phipsi.core.model.argument_checks import whole_number as whole_number
from phipsi.core.model.attachments import Attachment as Attachment
from phipsi.core.model.attachments import BodyRecords as BodyRecords
from phipsi.core.model.attachments import Described as Described
from phipsi.core.model.attachments import Mount as Mount
from phipsi.core.model.attachments import Picture as Picture
from phipsi.core.model.attachments import Removal as Removal
from phipsi.core.model.attachments import SystemAttachment as SystemAttachment
from phipsi.core.model.attachments import Weld as Weld
from phipsi.core.model.attachments import register as register
from phipsi.core.model.body import Body, Frame
from phipsi.core.model.body import Description as Description
from phipsi.core.model.body import LimitsArgument as LimitsArgument
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.capabilities import CAPABILITIES as CAPABILITIES
from phipsi.core.model.capabilities import LABELS as LABELS
from phipsi.core.model.capabilities import UNAFFECTED as UNAFFECTED
from phipsi.core.model.capabilities import Refusal as Refusal
from phipsi.core.model.capabilities import check_prescribed as check_prescribed
from phipsi.core.model.capabilities import forest_of as forest_of
from phipsi.core.model.capabilities import mechanism_of as mechanism_of
from phipsi.core.model.capabilities import prescribed_message as prescribed_message
from phipsi.core.model.capabilities import supports as supports
from phipsi.core.model.capabilities import tree_of as tree_of
from phipsi.core.model.closure_names import ends as ends
from phipsi.core.model.closure_names import loop_bodies as loop_bodies
from phipsi.core.model.closure_names import named as named
from phipsi.core.model.closure_rows import closure_residual as closure_residual
from phipsi.core.model.closure_rows import closure_row as closure_row
from phipsi.core.model.closure_rows import closure_row_along as closure_row_along
from phipsi.core.model.closure_rows import closure_row_rate as closure_row_rate
from phipsi.core.model.closure_rows import relative_twist as relative_twist
from phipsi.core.model.closures import ANGULAR as ANGULAR
from phipsi.core.model.closures import LINEAR as LINEAR
from phipsi.core.model.closures import NO_CLOSURES as NO_CLOSURES
from phipsi.core.model.closures import Closure as Closure
from phipsi.core.model.closures import ClosureSet as ClosureSet
from phipsi.core.model.closures import closure_set as closure_set
from phipsi.core.model.deflections import bent_too_far as bent_too_far
from phipsi.core.model.dual import Dual as Dual
from phipsi.core.model.dual import DualOps as DualOps
from phipsi.core.model.dual import hinge_axes_along as hinge_axes_along
from phipsi.core.model.dual import rate_of as rate_of
from phipsi.core.model.dual import value_of as value_of
from phipsi.core.model.edit import with_armature as with_armature
from phipsi.core.model.entry_names import entry_names as entry_names
from phipsi.core.model.entry_names import joint_units as joint_units
from phipsi.core.model.entry_names import known_joints as known_joints
from phipsi.core.model.entry_names import modal_rates as modal_rates
from phipsi.core.model.entry_names import place_name as place_name
from phipsi.core.model.entry_names import rates_of as rates_of
from phipsi.core.model.entry_names import unit_texts as unit_texts
from phipsi.core.model.entry_units import entry_units as entry_units
from phipsi.core.model.flexible_hinge import FlexibleHinge as FlexibleHinge
from phipsi.core.model.flexible_hinge import modal_amplitudes as modal_amplitudes
from phipsi.core.model.flexible_hinge import packed_inertia as packed_inertia
from phipsi.core.model.flexible_hinge import packed_port as packed_port
from phipsi.core.model.flexible_hinge import rates_of_rows as rates_of_rows
from phipsi.core.model.flexible_inertia import FlexibleInertia as FlexibleInertia
from phipsi.core.model.flexible_ports import FlexibleShape as FlexibleShape
from phipsi.core.model.flexible_ports import Port as Port
from phipsi.core.model.fork_safe_lock import ForkSafeLock as ForkSafeLock
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.joint import Joint
from phipsi.core.model.joint import ParamKind as ParamKind
from phipsi.core.model.joint import unit_axis as unit_axis
from phipsi.core.model.joints import Composite as Composite
from phipsi.core.model.joints import Cylindrical as Cylindrical
from phipsi.core.model.joints import Fixed as Fixed
from phipsi.core.model.joints import Free as Free
from phipsi.core.model.joints import Helical as Helical
from phipsi.core.model.joints import Planar as Planar
from phipsi.core.model.joints import Prismatic as Prismatic
from phipsi.core.model.joints import Revolute as Revolute
from phipsi.core.model.joints import Spherical as Spherical
from phipsi.core.model.joints import Translation as Translation
from phipsi.core.model.joints import Universal as Universal
from phipsi.core.model.law_forms import MOST_COORDINATES as MOST_COORDINATES
from phipsi.core.model.law_forms import LawForm as LawForm
from phipsi.core.model.law_forms import RowLaw as RowLaw
from phipsi.core.model.layout import JointView
from phipsi.core.model.model import Model
from phipsi.core.model.plain_records import checked_fields as checked_fields
from phipsi.core.model.plain_records import checked_items as checked_items
from phipsi.core.model.plain_records import encoded as encoded
from phipsi.core.model.points import ANY_POINTS as ANY_POINTS
from phipsi.core.model.points import AXES as AXES
from phipsi.core.model.points import PointSet as PointSet
from phipsi.core.model.points import checked_axes as checked_axes
from phipsi.core.model.points import point_set as point_set
from phipsi.core.model.pose import Pose
from phipsi.core.model.pose import plane_axes as plane_axes
from phipsi.core.model.pose import rotation_of_rpy as rotation_of_rpy
from phipsi.core.model.pose import rpy_of_rotation as rpy_of_rotation
from phipsi.core.model.rate_rows import RateRows as RateRows
from phipsi.core.model.rate_rows import rate_rows_of as rate_rows_of
from phipsi.core.model.scalar_linalg import ScalarOps as ScalarOps
from phipsi.core.model.scalar_linalg import as_array as as_array
from phipsi.core.model.scalar_linalg import dot as dot
from phipsi.core.model.scalar_linalg import is_zero as is_zero
from phipsi.core.model.scalar_linalg import rotation_of_quaternion as rotation_of_quaternion
from phipsi.core.model.serialize import register_joint as register_joint
from phipsi.core.model.tree import WORLD as WORLD
from phipsi.core.model.tree import WORLD_NAME as WORLD_NAME
from phipsi.core.model.tree import Tree
from phipsi.core.model.validate import check_body as check_body
from phipsi.core.model.value import ALL_GROUPS as ALL_GROUPS
from phipsi.core.model.value import PlainValue as PlainValue
from phipsi.core.model.value import Value as Value
from phipsi.core.model.value import check_text as check_text
from phipsi.core.model.value import check_type as check_type
from phipsi.core.model.value import fill as fill
from phipsi.core.model.value import plain as plain
from phipsi.core.model.value import read_only as read_only
from phipsi.core.model.value import vector3 as vector3
from phipsi.core.model.weld_fixed_joints import parent_indices as parent_indices
from phipsi.core.model.weld_fixed_joints import weld as weld

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
