"""Recorded motions: the results of `simulate`, between samples, in files and in figures."""
