"""The native backend keeps the contract."""

from backends.contract import BackendContract


class TestNative(BackendContract):
    backend = "native"
