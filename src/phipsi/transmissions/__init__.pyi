"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.transmissions.belts import (
    Belt as Belt,
    Spans as Spans,
    belt_spans as belt_spans,
    untouched as untouched,
    wraps as wraps,
)
from phipsi.transmissions.cams import Cam as Cam
from phipsi.transmissions.gears import (
    Differential as Differential,
    Gear as Gear,
    Planetary as Planetary,
    RackPinion as RackPinion,
    Screw as Screw,
)
from phipsi.transmissions.motors import Motor as Motor
from phipsi.transmissions.rotors import Carrier as Carrier, Rotor as Rotor
from phipsi.transmissions.tooth_forces import pitch_cones as pitch_cones

__all__ = []
