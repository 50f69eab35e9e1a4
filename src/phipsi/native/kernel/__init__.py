"""The code of one kernel: operations, their places, phases, and where values are kept."""
