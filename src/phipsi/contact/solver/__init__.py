"""The frictional contact problem and its solvers."""
