"""How an expression runs: equations over the bodies, scheduled into sweeps."""
