"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.attached.file_metadata import (
    INERTIA_KINDS as INERTIA_KINDS,
    Exclusion as Exclusion,
    FileMetadata as FileMetadata,
    Finding as Finding,
    JointProperties as JointProperties,
    LinkShape as LinkShape,
    MimicJoint as MimicJoint,
    ShapePair as ShapePair,
    as_file_shape as as_file_shape,
)
from phipsi.attached.material import Material as Material
from phipsi.attached.shapes import (
    CORNERS as CORNERS,
    MOST_VERTICES as MOST_VERTICES,
    BodyShape as BodyShape,
    Box as Box,
    Capsule as Capsule,
    ConvexMesh as ConvexMesh,
    Cylinder as Cylinder,
    Ellipsoid as Ellipsoid,
    HeightField as HeightField,
    Plane as Plane,
    Shape as Shape,
    Sphere as Sphere,
    bounding_ball as bounding_ball,
    farthest_point as farthest_point,
    few_corners as few_corners,
    is_round as is_round,
    is_surface as is_surface,
    make_shape as make_shape,
)

__all__ = []
