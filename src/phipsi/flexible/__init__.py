"""Where modes come from: beams, matrices of finite elements, meshes, points with mass.

The functions return plain arrays; `FlexibleInertia` (model/flexible_inertia.py) checks and keeps
them. SciPy and readers of meshes are loaded when they are used.
"""
