"""Runs described in TOML files."""
