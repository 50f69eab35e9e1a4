"""modelDescription.xml and buildDescription.xml of an FMU, for FMI 3.0 and 2.0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    "N.m": {"kg": 1, "m": 2, "s": -2},
    "N": {"kg": 1, "m": 1, "s": -2},
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
    writer = _Fmi3 if version == "3.0" else _Fmi2
    return writer(model, identifier, token, kinds, about).text()


def build_description(identifier: str) -> str:
    """The text of buildDescription.xml (FMI 3.0)."""
    files = _tag("SourceFileSet", _tag("SourceFile", name=f"{identifier}.c"), language="C99")
    inside = _tag("BuildConfiguration", files, modelIdentifier=identifier)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _tag(
        "fmiBuildDescription", inside, fmiVersion="3.0"
    )


class _Description:
    """What the versions have in common."""

    def __init__(
        self, model: FmuModel, identifier: str, token: str, kinds: Sequence[str], about: str
    ) -> None:
        self.model, self.identifier, self.token = model, identifier, token
        self.kinds, self.about = kinds, about
        self.exchanges = "model_exchange" in kinds

    def units(self) -> str:
        """The units that occur."""
        used = dict.fromkeys(x.unit for x in self.model.variables if x.unit)
        return "".join(_tag("Unit", _tag("BaseUnit", **_UNITS[x]), name=x) for x in used)

    def experiment(self) -> str:
        """What a simulation is, if nothing is said."""
        dt = self.model.simulator.dt
        return _tag("DefaultExperiment", startTime=0.0, stopTime=1.0, stepSize=dt)

    def shown(self) -> Iterator[Variable]:
        """The variables, without derivatives where there is no model exchange."""
        for x in self.model.variables:
            if x.causality != "hidden" and (x.derivative is None or self.exchanges):
                yield x

    def initial(self, x: Variable) -> str | None:
        """FMI's word for where the first value comes from."""
        if x.causality in ("input", "independent"):
            return None
        return "calculated" if x.start is None else "exact"

    def calculated(self) -> list[Variable]:
        """Outputs and derivatives that are computed."""
        return [x for x in self.shown() if self.initial(x) == "calculated"]


class _Fmi3(_Description):
    def text(self) -> str:
        """The whole."""
        rows = "\n".join(map(self._variable, self.shown()))
        inside = "\n".join(
            [
                *map(self._kind, self.kinds),
                _tag("UnitDefinitions", self.units()),
                _tag("LogCategories", _categories()),
                self.experiment(),
                f"<ModelVariables>\n{rows}\n</ModelVariables>",
                _tag("ModelStructure", self._structure()),
            ]
        )
        head = _tag(
            "fmiModelDescription",
            f"\n{inside}\n",
            fmiVersion="3.0",
            modelName=self.identifier,
            instantiationToken=self.token,
            description=self.about,
            generationTool="phipsi",
            variableNamingConvention="flat",
        )
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n'

    def _kind(self, kind: str) -> str:
        common = {
            "modelIdentifier": self.identifier,
            "canGetAndSetFMUState": True,
            "canSerializeFMUState": True,
        }
        if kind == "model_exchange":
            plans = self.model.plans
            return _tag(
                "ModelExchange",
                **common,
                needsCompletedIntegratorStep="close" in plans,
                providesDirectionalDerivatives="pull" in plans,
                providesAdjointDerivatives="pull" in plans,
            )
        return _tag(
            "CoSimulation",
            **common,
            canHandleVariableCommunicationStepSize=not self.model.periods,
            fixedInternalStepSize=self.model.simulator.dt,
        )

    def _variable(self, x: Variable) -> str:
        return "  " + _tag(
            "Float64",
            name=x.name,
            valueReference=x.place,
            causality=x.causality,
            variability=x.variability,
            initial=self.initial(x),
            unit=x.unit or None,
            start=x.start,
            derivative=x.derivative,
            reinit=True if x.reinit and self.exchanges else None,
        )

    def _structure(self) -> str:
        shown, out = list(self.shown()), ""
        out += "".join(
            _tag("Output", valueReference=x.place) for x in shown if x.causality == "output"
        )
        derivatives = [x for x in shown if x.derivative is not None]
        out += "".join(
            _tag("ContinuousStateDerivative", valueReference=x.place) for x in derivatives
        )
        out += "".join(_tag("InitialUnknown", valueReference=x.place) for x in self.calculated())
        return out


class _Fmi2(_Description):
    def text(self) -> str:
        """The whole."""
        self._index = {x.place: i for i, x in enumerate(self.shown(), 1)}
        rows = "\n".join(map(self._variable, self.shown()))
        parts = [
            *map(self._kind, self.kinds),
            _tag("UnitDefinitions", self.units()),
            _tag("LogCategories", _categories(described=False)),
            self.experiment(),
            f"<ModelVariables>\n{rows}\n</ModelVariables>",
            _tag("ModelStructure", self._structure()) or "<ModelStructure/>",
        ]
        inside = "\n".join(parts)
        head = _tag(
            "fmiModelDescription",
            f"\n{inside}\n",
            fmiVersion="2.0",
            modelName=self.identifier,
            guid=self.token,
            description=self.about,
            generationTool="phipsi",
            variableNamingConvention="flat",
            numberOfEventIndicators=0,
        )
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n'

    def _kind(self, kind: str) -> str:
        common = {
            "modelIdentifier": self.identifier,
            "canGetAndSetFMUstate": True,
            "canSerializeFMUstate": True,
        }
        sources = _tag("SourceFiles", _tag("File", name=f"{self.identifier}.c"))
        if kind == "model_exchange":
            common["completedIntegratorStepNotNeeded"] = "close" not in self.model.plans
            common["providesDirectionalDerivative"] = "pull" in self.model.plans
            return _tag("ModelExchange", sources, **common)
        common["canHandleVariableCommunicationStepSize"] = not self.model.periods
        return _tag("CoSimulation", sources, **common)

    def _variable(self, x: Variable) -> str:
        derivative = None if x.derivative is None else self._index[x.derivative]
        real = _tag(
            "Real",
            unit=x.unit or None,
            start=x.start,
            derivative=derivative,
            reinit=True if x.reinit and self.exchanges else None,
        )
        return "  " + _tag(
            "ScalarVariable",
            real,
            name=x.name,
            valueReference=x.place,
            causality=x.causality,
            variability=x.variability,
            initial=self.initial(x),
        )

    def _structure(self) -> str:
        shown = list(self.shown())
        listed = {
            "Outputs": [x for x in shown if x.causality == "output"],
            "Derivatives": [x for x in shown if x.derivative is not None],
            "InitialUnknowns": self.calculated(),
        }
        return "".join(
            _tag(name, "".join(_tag("Unknown", index=self._index[x.place]) for x in found))
            for name, found in listed.items()
            if found
        )


def _categories(*, described: bool = True) -> str:
    names = {"logStatusError": "why a call failed", "logStatusWarning": "what may be wrong"}
    return "".join(
        _tag("Category", name=k, description=v if described else None) for k, v in names.items()
    )
