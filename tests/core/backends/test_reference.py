"""The reference backend keeps the contract."""

from amounts import mostly
from backend_contract import MODELS, BackendContract


class TestReference(BackendContract):
    backend = "reference"
    models = mostly(MODELS, "chain", "star", "arm")  # other forests have their joints and rotors
