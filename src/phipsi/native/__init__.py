"""The native backend: sweeps as machine code, several configurations side by side in lanes."""
