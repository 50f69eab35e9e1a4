"""Contact with friction: where bodies touch, the law of their impulses, and its solution."""
