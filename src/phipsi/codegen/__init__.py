"""Code generation: object files, C, WebAssembly, PTX and FMUs, for this and other processors."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "export": "export",
        "exported_module": "exported_module",
        "exported_step": "PlanWriter",
        "fmu": "export_fmu",
        "named_programs": "programs_named",
        "targets": "TARGETS target_named",
        "webassembly": "wasm_module",
    },
)
