"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.model import joints
from phipsi.core.model.argument_checks import (
    all_finite as all_finite,
    as_floats as as_floats,
    as_list as as_list,
    as_numbers as as_numbers,
    entries_of as entries_of,
    finite as finite,
    first_not_finite as first_not_finite,
    flat_batch as flat_batch,
    flattened as flattened,
    floats_of as floats_of,
    is_array as is_array,
    is_collection as is_collection,
    is_list as is_list,
    is_mapping as is_mapping,
    is_masked as is_masked,
    is_tuple as is_tuple,
    kind_of as kind_of,
    plain_numbers as plain_numbers,
    surely_numbers as surely_numbers,
    whole_number as whole_number,
)
from phipsi.core.model.attachments import (
    Attachment as Attachment,
    BodyRecords as BodyRecords,
    Described as Described,
    Mount as Mount,
    Picture as Picture,
    Removal as Removal,
    SystemAttachment as SystemAttachment,
    Weld as Weld,
    register as register,
)
from phipsi.core.model.body import (
    Body,
    Description as Description,
    Frame,
    LimitsArgument as LimitsArgument,
)
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.capabilities import (
    CAPABILITIES as CAPABILITIES,
    LABELS as LABELS,
    UNAFFECTED as UNAFFECTED,
    Refusal as Refusal,
    check_prescribed as check_prescribed,
    forest_of as forest_of,
    mechanism_of as mechanism_of,
    prescribed_message as prescribed_message,
    supports as supports,
    tree_of as tree_of,
)
from phipsi.core.model.closure_names import ends as ends, loop_bodies as loop_bodies, named as named
from phipsi.core.model.closure_rows import (
    closure_residual as closure_residual,
    closure_row as closure_row,
    closure_row_along as closure_row_along,
    closure_row_rate as closure_row_rate,
    relative_twist as relative_twist,
)
from phipsi.core.model.closures import (
    ANGULAR as ANGULAR,
    LINEAR as LINEAR,
    NO_CLOSURES as NO_CLOSURES,
    Closure as Closure,
    ClosureSet as ClosureSet,
    closure_set as closure_set,
)
from phipsi.core.model.compound_body import (
    CompoundBody as CompoundBody,
    CompoundPort as CompoundPort,
    compound_of as compound_of,
    compound_port_of as compound_port_of,
    reject_compound as reject_compound,
)
from phipsi.core.model.deflections import bent_too_far as bent_too_far
from phipsi.core.model.dual import (
    Dual as Dual,
    DualOps as DualOps,
    hinge_axes_along as hinge_axes_along,
    rate_of as rate_of,
    value_of as value_of,
)
from phipsi.core.model.edit import with_armature as with_armature
from phipsi.core.model.entry_names import (
    entry_names as entry_names,
    joint_units as joint_units,
    known_joints as known_joints,
    modal_rates as modal_rates,
    place_name as place_name,
    rates_of as rates_of,
    unit_texts as unit_texts,
)
from phipsi.core.model.entry_units import entry_units as entry_units
from phipsi.core.model.flexible_hinge import (
    FlexibleHinge as FlexibleHinge,
    modal_amplitudes as modal_amplitudes,
    packed_inertia as packed_inertia,
    packed_port as packed_port,
    rates_of_rows as rates_of_rows,
)
from phipsi.core.model.flexible_inertia import FlexibleInertia as FlexibleInertia
from phipsi.core.model.flexible_ports import FlexibleShape as FlexibleShape, Port as Port
from phipsi.core.model.fork_safe_lock import ForkSafeLock as ForkSafeLock
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.joint import Joint, ParamKind as ParamKind, unit_axis as unit_axis
from phipsi.core.model.joints import (
    Composite as Composite,
    Cylindrical as Cylindrical,
    Fixed as Fixed,
    Free as Free,
    Helical as Helical,
    Planar as Planar,
    Prismatic as Prismatic,
    Revolute as Revolute,
    Spherical as Spherical,
    Translation as Translation,
    Universal as Universal,
)
from phipsi.core.model.law_forms import (
    MOST_COORDINATES as MOST_COORDINATES,
    LawForm as LawForm,
    RowLaw as RowLaw,
)
from phipsi.core.model.layout import JointView
from phipsi.core.model.model import Model
from phipsi.core.model.plain_records import (
    checked_fields as checked_fields,
    checked_items as checked_items,
    encoded as encoded,
)
from phipsi.core.model.points import (
    ANY_POINTS as ANY_POINTS,
    AXES as AXES,
    PointSet as PointSet,
    checked_axes as checked_axes,
    point_set as point_set,
)
from phipsi.core.model.pose import (
    Pose,
    plane_axes as plane_axes,
    rotation_of_rpy as rotation_of_rpy,
    rpy_of_rotation as rpy_of_rotation,
)
from phipsi.core.model.rate_rows import RateRows as RateRows, rate_rows_of as rate_rows_of
from phipsi.core.model.scalar_linalg import (
    ScalarOps as ScalarOps,
    as_array as as_array,
    dot as dot,
    is_zero as is_zero,
    rotation_of_quaternion as rotation_of_quaternion,
)
from phipsi.core.model.serialize import register_joint as register_joint
from phipsi.core.model.tree import WORLD as WORLD, WORLD_NAME as WORLD_NAME, Tree
from phipsi.core.model.validate import check_body as check_body
from phipsi.core.model.value import (
    ALL_GROUPS as ALL_GROUPS,
    PlainValue as PlainValue,
    Value as Value,
    check_text as check_text,
    check_type as check_type,
    fill as fill,
    plain as plain,
    read_only as read_only,
    vector3 as vector3,
)
from phipsi.core.model.weld_fixed_joints import parent_indices as parent_indices, weld as weld

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
