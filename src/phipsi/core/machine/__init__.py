"""One text for an algorithm that iterates, searches or solves: on arrays and as machine code."""
