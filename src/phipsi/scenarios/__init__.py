"""Runs described in TOML files."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "load_scenario": "load_scenario",
        "scenario": "Scenario checked_output",
    },
)
