"""Shapes that touch as an attachment: they move and go with their bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, final

from phipsi.attached.shapes import BodyShape, make_shape, shape_from_dict, shape_to_dict
from phipsi.core.model import BodyRecords, checked_items, register


@final
@register
class BodyShapes(BodyRecords):
    """The shapes with which the bodies of a mechanism touch each other."""

    keys, record, what = ("shapes",), BodyShape, "shape"
    records: tuple[BodyShape, ...]
    made = staticmethod(make_shape)

    def to_dict(self) -> dict[str, Any]:
        """A list of shapes, each with its kind, sizes and material."""
        return {"shapes": [*map(shape_to_dict, self.records)]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        return cls([*map(shape_from_dict, checked_items(data, "shapes"))])
