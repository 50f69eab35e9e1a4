"""Closed loops as compound bodies of a tree: constraint embedding."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(__name__, {"embedded_system": "EmbeddedSystem embed_constraints"})
