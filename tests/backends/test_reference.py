"""The reference backend keeps the contract."""

from backends.contract import BackendContract


class TestReference(BackendContract):
    backend = "reference"
