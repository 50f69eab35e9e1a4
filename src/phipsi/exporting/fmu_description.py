"""modelDescription.xml and buildDescription.xml of an FMU, for FMI 3.0 and 2.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

from phipsi.exporting.fmu_model import FmuModel, Variable

_UNITS = {
    "s": {"s": 1},
    "rad": {"rad": 1},
    "m": {"m": 1},
    "1": {},
    "rad/s": {"rad": 1, "s": -1},
    "m/s": {"m": 1, "s": -1},
    "1/s": {"s": -1},
    "rad/s2": {"rad": 1, "s": -2},
    "m/s2": {"m": 1, "s": -2},
    "1/s2": {"s": -2},
    "N.m": {"kg": 1, "m": 2, "s": -2},
    "N": {"kg": 1, "m": 1, "s": -2},
    "J": {"kg": 1, "m": 2, "s": -2},
}
KINDS = {"co_simulation": "CoSimulation", "model_exchange": "ModelExchange"}


def _tag(name: str, inside: str = "", /, **attributes: object) -> str:
    """An element; attributes that are None are left out."""
    listed = "".join(f" {k}={quoteattr(_value(v))}" for k, v in attributes.items() if v is not None)
    return f"<{name}{listed}>{inside}</{name}>" if inside else f"<{name}{listed}/>"


def _value(x: object) -> str:
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, float):
        return repr(x)
    return "".join(c if c.isprintable() else "?" for c in str(x))  # XML has no other characters


def model_description(
    model: FmuModel, version: str, identifier: str, token: str, kinds: Sequence[str], about: str
) -> str:
    """The text of modelDescription.xml."""
    words = _WORDS[version]
    return _Description(model, version, words, identifier, kinds, about).text(token)


def build_description(identifier: str) -> str:
    """The text of buildDescription.xml (FMI 3.0)."""
    files = _tag("SourceFileSet", _tag("SourceFile", name=f"{identifier}.c"), language="C99")
    inside = _tag("BuildConfiguration", files, modelIdentifier=identifier)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _tag(
        "fmiBuildDescription", inside, fmiVersion="3.0"
    )


# The words of each version for the token, saved states, and abilities of the model.
_WORDS = {
    "3.0": {
        "token": "instantiationToken",
        "states": ("canGetAndSetFMUState", "canSerializeFMUState"),
        "closes": ("needsCompletedIntegratorStep", True),
        "derivatives": ("providesDirectionalDerivatives", "providesAdjointDerivatives"),
        "structure": ("Output", "ContinuousStateDerivative", "InitialUnknown"),
    },
    "2.0": {
        "token": "guid",
        "states": ("canGetAndSetFMUstate", "canSerializeFMUstate"),
        "closes": ("completedIntegratorStepNotNeeded", False),
        "derivatives": ("providesDirectionalDerivative",),
        "structure": ("Outputs", "Derivatives", "InitialUnknowns"),
    },
}


class _Description:
    """Writes the description in the words of a version.

    FMI 2.0 numbers variables in the order of the file, has elements around those of FMI 3.0, and
    lists the source files itself.
    """

    def __init__(
        self, model: FmuModel, version: str, words: Mapping[str, Any], identifier: str,
        kinds: Sequence[str], about: str,
    ) -> None:  # fmt: skip
        self.model, self.version, self.words = model, version, words
        self.identifier, self.kinds, self.about = identifier, kinds, about
        self.old, self.exchanges = version == "2.0", "model_exchange" in kinds
        self._number = {
            x.place: i if self.old else x.place for i, x in enumerate(self._shown(), 1)
        }  # by which variables refer to others

    def text(self, token: str) -> str:
        """The whole."""
        rows = "\n".join(map(self._variable, self._shown()))
        dt = self.model.simulator.dt
        inside = "\n".join(
            [
                *map(self._kind, self.kinds),
                _tag("UnitDefinitions", self._units()),
                _tag("LogCategories", _categories(described=not self.old)),
                _tag("DefaultExperiment", startTime=0.0, stopTime=1.0, stepSize=dt),
                f"<ModelVariables>\n{rows}\n</ModelVariables>",
                _tag("ModelStructure", self._structure()),
            ]
        )
        attributes: dict[str, object] = {
            "fmiVersion": self.version,
            "modelName": self.identifier,
            self.words["token"]: token,
            "description": self.about,
            "generationTool": "phipsi",
            "variableNamingConvention": "flat",
            "numberOfEventIndicators": 0 if self.old else None,
        }
        head = _tag("fmiModelDescription", f"\n{inside}\n", **attributes)
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n'

    def _units(self) -> str:
        """The units that occur."""
        used = dict.fromkeys(x.unit for x in self.model.variables if x.unit)
        return "".join(_tag("Unit", _tag("BaseUnit", **_UNITS[x]), name=x) for x in used)

    def _kind(self, kind: str) -> str:
        """What the model can do, by co-simulation or by model exchange."""
        plans = self.model.plans
        can: dict[str, object] = {"modelIdentifier": self.identifier}
        can |= dict.fromkeys(self.words["states"], True)
        if kind == "model_exchange":
            word, needed = self.words["closes"]
            can[word] = ("close" in plans) == needed
            can |= dict.fromkeys(self.words["derivatives"], "pull" in plans)
        else:
            can["canHandleVariableCommunicationStepSize"] = not self.model.periods
            can["fixedInternalStepSize"] = None if self.old else self.model.simulator.dt
        sources = _tag("SourceFiles", _tag("File", name=f"{self.identifier}.c"))
        return _tag(KINDS[kind], sources if self.old else "", **can)

    def _shown(self) -> Iterator[Variable]:
        """The variables, without derivatives where there is no model exchange."""
        for x in self.model.variables:
            if x.causality != "hidden" and (x.derivative is None or self.exchanges):
                yield x

    def _initial(self, x: Variable) -> str | None:
        """FMI's word for where the first value comes from."""
        if x.causality in ("input", "independent"):
            return None
        return "calculated" if x.start is None else "exact"

    def _variable(self, x: Variable) -> str:
        named: dict[str, object] = {
            "name": x.name,
            "valueReference": x.place,
            "causality": x.causality,
            "variability": x.variability,
            "initial": self._initial(x),
        }
        real: dict[str, object] = {
            "unit": x.unit or None,
            "start": x.start,
            "derivative": None if x.derivative is None else self._number[x.derivative],
            "reinit": True if x.reinit and self.exchanges else None,
        }
        if self.old:
            return "  " + _tag("ScalarVariable", _tag("Real", **real), **named)
        return "  " + _tag("Float64", **named, **real)

    def _structure(self) -> str:
        """Outputs, derivatives of the states, and variables that are calculated at the start."""
        shown = list(self._shown())
        listed = (
            [x for x in shown if x.causality == "output"],
            [x for x in shown if x.derivative is not None],
            [x for x in shown if self._initial(x) == "calculated"],
        )
        out = ""
        for word, found in zip(self.words["structure"], listed, strict=True):
            numbers = [self._number[x.place] for x in found]
            if self.old and found:
                out += _tag(word, "".join(_tag("Unknown", index=n) for n in numbers))
            elif not self.old:
                out += "".join(_tag(word, valueReference=n) for n in numbers)
        return out


def _categories(*, described: bool) -> str:
    names = {"logStatusError": "why a call failed", "logStatusWarning": "what may be wrong"}
    return "".join(
        _tag("Category", name=k, description=v if described else None) for k, v in names.items()
    )
