"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.transmissions.belts import Belt as Belt
from phipsi.transmissions.belts import Spans as Spans
from phipsi.transmissions.belts import belt_spans as belt_spans
from phipsi.transmissions.belts import untouched as untouched
from phipsi.transmissions.belts import wraps as wraps
from phipsi.transmissions.cams import Cam as Cam
from phipsi.transmissions.gears import Differential as Differential
from phipsi.transmissions.gears import Gear as Gear
from phipsi.transmissions.gears import Planetary as Planetary
from phipsi.transmissions.gears import RackPinion as RackPinion
from phipsi.transmissions.gears import Screw as Screw
from phipsi.transmissions.motors import Motor as Motor
from phipsi.transmissions.rotors import Carrier as Carrier
from phipsi.transmissions.rotors import Rotor as Rotor
from phipsi.transmissions.tooth_forces import pitch_cones as pitch_cones

__all__ = []
