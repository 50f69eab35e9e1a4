"""Other libraries: their arrays, gradients and conventions."""
