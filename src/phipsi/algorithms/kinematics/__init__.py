"""Where bodies and points are and how they move, and the configurations that put them somewhere."""
