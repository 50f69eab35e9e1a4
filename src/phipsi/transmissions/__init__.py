"""Gears, belts, cams and motors: constraints between the coordinates of joints."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "belts": "Belt Spans belt_spans untouched wraps",
        "cams": "Cam",
        "gears": "Differential Gear Planetary RackPinion Screw",
        "motors": "Motor",
        "rotors": "Carrier Rotor",
        "tooth_forces": "pitch_cones",
    },
)
