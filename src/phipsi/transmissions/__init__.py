"""Gears, belts, cams and motors: constraints between the coordinates of joints."""
