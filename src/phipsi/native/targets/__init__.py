"""Processors that code is compiled for, and where compiled code is kept."""
