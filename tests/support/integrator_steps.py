"""An integrator with the numbers that it uses, for tests over many of them."""

from phipsi.simulation.integrators.tableaux import METHODS


def steps_of(integrator: str, **given: float) -> dict[str, object]:
    """Arguments of `simulate`: the step where it is fixed, the tolerances where it is not."""
    used = ("rtol", "atol") if METHODS[integrator].is_adaptive else ("dt",)
    return {"integrator": integrator} | {n: x for n, x in given.items() if n in used}
