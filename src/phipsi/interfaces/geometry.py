"""Shapes of URDF and SDF files, with mesh paths confined to the robot's folders."""

from __future__ import annotations

from typing import final

from phipsi.interfaces.document import Element, shortened
from phipsi.interfaces.draft import Draft
from phipsi.interfaces.files import Refused, Roots


@final
class MeshPaths:
    """Finds mesh files, remembers what was found, and records what was not."""

    def __init__(self, roots: Roots, draft: Draft) -> None:
        self.roots, self.draft = roots, draft
        self.known: dict[str, str | None] = {}

    def locate(self, uri: str, at: Element, who: str) -> str | None:
        """The real path of a mesh, None if it is not there; an error if it leads outside.

        An absolute path is what another machine left behind, as in some shipped robots: it is not
        opened and the finding says so. Other ways out of the package are errors.
        """
        if uri in self.known:
            return self.known[uri]
        found = None
        name = at.attributes.get("name", who)
        try:
            found = self.roots.locate(uri)
        except Refused as refused:
            if not refused.is_absolute:
                raise at.error(
                    f"mesh {shortened(uri)}: {refused}. If the folder is right, allow it:\n"
                    f'    pp.load(path, package_dirs=["folder that contains the package"])',
                    who,
                ) from refused
            self.draft.note("mesh", who, name, f"mesh {shortened(uri)}: {refused}.", at.line, True)
        else:
            if found is None:
                self.draft.note("mesh", who, name, f"mesh {shortened(uri)} was not found.", at.line)
        self.known[uri] = found
        return found
