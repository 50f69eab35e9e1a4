"""Robot files: URDF, SDF and MJCF, and what their readers share."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "allowed_folders": "AllowedFolders PackageDirs Rejected",
        "conventions": ". to_pinocchio",
        "files": "read_bytes",
        "joint_values": "assignments initial_state joint_values parsed_number with_values",
        "load": "load",
        "mjcf.read_mjcf": "READERS",
    },
)
