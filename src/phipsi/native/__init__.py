"""The native backend: sweeps as machine code, several configurations side by side in lanes."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "calls.batch_loop": "define_pack define_unpack",
        "calls.direct_call": "address_of",
        "calls.spin_pool": ". MOST run_tasks tasks_of_jobs",
        "custom_kernel": "CustomKernel LaneKernel graph_after_program graph_function",
        "data_record": ".",
        "group_lanes": "GroupLanes LaneList",
        "kernel.entry_code": "LaneNumbers",
        "kernel.law_code": "Area LawCode loop_invariant",
        "lane_machine": "LaneMachine LaneMemory",
        "lane_routine": "lane_routine",
        "lane_values": "GraphValue LaneCondition LaneIndex",
        "machine_call": "MachineCall",
        "native_backend": "KernelSource",
        "pipeline": "can_run",
        "runs.lane_group": "JointPart",
        "runs.run_job": ".",
        "runs.run_kernel": "Rows RunKernel",
        "runs.straight_line": "LaneStatus Routine StraightLine shared_line straight_line",
        "targets.code_cache": "kept_object linked_code sources_digest",
        "targets.llvm_library": ". llvm",
        "targets.target": ". MachineCode NumberName Target host_target",
        "text.c_text": "INSIDE CModule listed_table number_text",
        "text.lane_arithmetic": (
            "I1 I32 I64 NUMBERS POINTER WORD Emitter FloatFormat i64 write_loop"
        ),
        "text.llvm_text": ".",
    },
)
