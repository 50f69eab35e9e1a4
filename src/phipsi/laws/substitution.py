"""Graphs with some of their nodes replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phipsi.laws.graph import Node, in_order
from phipsi.laws.law_operations import apply


def substituted(results: Sequence[Node], values: Mapping[Node, Node]) -> list[Node]:
    """The nodes with others in place of those that `values` names; constants are computed."""
    known = dict(values)
    for x in in_order(results):
        if x in known:
            continue
        args = [known[y] for y in x.args]
        if args == list(x.args):
            known[x] = x
        elif x.operation.is_entrywise:
            known[x] = apply(x.operation.name, *args, data=x.data)
        else:
            known[x] = Node(x.operation, args, x.data)
    return [known[x] for x in results]
