"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.attached.file_metadata import INERTIA_KINDS as INERTIA_KINDS
from phipsi.attached.file_metadata import Exclusion as Exclusion
from phipsi.attached.file_metadata import FileMetadata as FileMetadata
from phipsi.attached.file_metadata import Finding as Finding
from phipsi.attached.file_metadata import LinkShape as LinkShape
from phipsi.attached.file_metadata import MimicJoint as MimicJoint
from phipsi.attached.file_metadata import Rating as Rating
from phipsi.attached.file_metadata import ShapePair as ShapePair
from phipsi.attached.file_metadata import as_file_shape as as_file_shape
from phipsi.attached.shapes import CORNERS as CORNERS
from phipsi.attached.shapes import MOST_VERTICES as MOST_VERTICES
from phipsi.attached.shapes import BodyShape as BodyShape
from phipsi.attached.shapes import Box as Box
from phipsi.attached.shapes import Capsule as Capsule
from phipsi.attached.shapes import ConvexMesh as ConvexMesh
from phipsi.attached.shapes import Cylinder as Cylinder
from phipsi.attached.shapes import Ellipsoid as Ellipsoid
from phipsi.attached.shapes import HeightField as HeightField
from phipsi.attached.shapes import Material as Material
from phipsi.attached.shapes import Plane as Plane
from phipsi.attached.shapes import Shape as Shape
from phipsi.attached.shapes import Sphere as Sphere
from phipsi.attached.shapes import bounding_ball as bounding_ball
from phipsi.attached.shapes import farthest_point as farthest_point
from phipsi.attached.shapes import few_corners as few_corners
from phipsi.attached.shapes import is_round as is_round
from phipsi.attached.shapes import is_surface as is_surface
from phipsi.attached.shapes import make_shape as make_shape

__all__ = []
