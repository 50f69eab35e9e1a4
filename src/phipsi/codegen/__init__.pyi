"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.codegen.export import export as export
from phipsi.codegen.exported_module import exported_module as exported_module
from phipsi.codegen.exported_step import PlanWriter as PlanWriter
from phipsi.codegen.fmu import export_fmu as export_fmu
from phipsi.codegen.named_programs import programs_named as programs_named
from phipsi.codegen.targets import TARGETS as TARGETS, target_named as target_named
from phipsi.codegen.webassembly import wasm_module as wasm_module

__all__ = []
