"""Recorded motions: what `simulate` returns, between the samples, in files and in figures."""
