"""Where two shapes are nearest or overlap: formulas in plain arithmetic, one file per kind."""
