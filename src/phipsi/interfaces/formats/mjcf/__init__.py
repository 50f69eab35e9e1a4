"""MJCF, read by MuJoCo."""
