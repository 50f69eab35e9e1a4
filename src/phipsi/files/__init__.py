"""Robot files: URDF, SDF and MJCF, and what their readers share."""
