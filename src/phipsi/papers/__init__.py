"""The five papers: proofs, theorems, derivations, and the workbench."""
