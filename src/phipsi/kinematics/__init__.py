"""Inverse kinematics: configurations that put points of a mechanism somewhere."""
