"""The reference backend keeps the contract."""

from backend_contract import BackendContract


class TestReference(BackendContract):
    backend = "reference"
