"""The algebra and its compiler: from a mechanism and an expression to a program.

Reasons: docs/decisions/0070.
"""
