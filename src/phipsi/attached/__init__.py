"""What is attached to bodies: shapes, and what robot files say of them."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "file_metadata": (
            "INERTIA_KINDS Exclusion FileMetadata Finding LinkShape JointProperties "
            "MimicJoint ShapePair "
            "as_file_shape"
        ),
        "material": "Material",
        "shapes": (
            "CORNERS MOST_VERTICES BodyShape Box Capsule ConvexMesh Cylinder Ellipsoid HeightField "
            "Plane Shape Sphere bounding_ball farthest_point few_corners is_round "
            "is_surface make_shape"
        ),
    },
)
