"""What `make test ROOM=contact` runs: tests and docstring examples of a room, and the contracts.

    python scripts/room_paths.py contact native

A room is a folder or a module of src/phipsi; core/sweeps is a part of one. `house`, `contracts` and
`docs` have tests only. Prints paths for pytest; without a room nothing, which is all tests.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from tests_of_rooms import paths_of_room, rooms_with_tests  # noqa: E402


def main(rooms: list[str]) -> None:
    """Paths of all these rooms, or an error that lists the rooms there are."""
    found: list[str] = []
    for room in rooms:
        paths = paths_of_room(room.strip("/"))
        if not paths:
            sys.exit(f"there is no room {room!r}; there are: {', '.join(rooms_with_tests())}")
        found += paths
    if found:
        print(*dict.fromkeys([*found, "tests/contracts"]))


if __name__ == "__main__":
    main(sys.argv[1:])
