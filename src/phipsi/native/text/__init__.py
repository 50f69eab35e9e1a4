"""Writing code: LLVM text, vectors of lanes, elementary functions."""
