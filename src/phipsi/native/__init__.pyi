"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.native import data_record as data_record
from phipsi.native.calls import spin_pool as spin_pool
from phipsi.native.calls.batch_loop import (
    define_pack as define_pack,
    define_unpack as define_unpack,
)
from phipsi.native.calls.direct_call import address_of as address_of
from phipsi.native.calls.spin_pool import (
    MOST as MOST,
    run_tasks as run_tasks,
    tasks_of_jobs as tasks_of_jobs,
)
from phipsi.native.custom_kernel import (
    CustomKernel as CustomKernel,
    LaneKernel as LaneKernel,
    graph_after_program as graph_after_program,
    graph_function as graph_function,
)
from phipsi.native.group_lanes import GroupLanes as GroupLanes, LaneList as LaneList
from phipsi.native.kernel.entry_code import LaneNumbers as LaneNumbers
from phipsi.native.kernel.law_code import (
    Area as Area,
    LawCode as LawCode,
    loop_invariant as loop_invariant,
)
from phipsi.native.lane_machine import LaneMachine as LaneMachine, LaneMemory as LaneMemory
from phipsi.native.lane_routine import lane_routine as lane_routine
from phipsi.native.lane_values import (
    GraphValue as GraphValue,
    LaneCondition as LaneCondition,
    LaneIndex as LaneIndex,
)
from phipsi.native.machine_call import MachineCall as MachineCall
from phipsi.native.native_backend import KernelSource as KernelSource
from phipsi.native.pipeline import can_run as can_run
from phipsi.native.runs import run_job as run_job
from phipsi.native.runs.lane_group import JointPart as JointPart
from phipsi.native.runs.run_kernel import Rows as Rows, RunKernel as RunKernel
from phipsi.native.runs.straight_line import (
    LaneStatus as LaneStatus,
    Routine as Routine,
    StraightLine as StraightLine,
    shared_line as shared_line,
    straight_line as straight_line,
)
from phipsi.native.targets import llvm_library as llvm_library, target as target
from phipsi.native.targets.code_cache import (
    kept_object as kept_object,
    linked_code as linked_code,
    sources_digest as sources_digest,
)
from phipsi.native.targets.llvm_library import llvm as llvm
from phipsi.native.targets.target import (
    MachineCode as MachineCode,
    NumberName as NumberName,
    Target as Target,
    host_target as host_target,
)
from phipsi.native.text import llvm_text as llvm_text
from phipsi.native.text.c_text import (
    INSIDE as INSIDE,
    CModule as CModule,
    listed_table as listed_table,
    number_text as number_text,
)
from phipsi.native.text.lane_arithmetic import (
    I1 as I1,
    I32 as I32,
    I64 as I64,
    NUMBERS as NUMBERS,
    POINTER as POINTER,
    WORD as WORD,
    Emitter as Emitter,
    FloatFormat as FloatFormat,
    i64 as i64,
    write_loop as write_loop,
)

__all__ = []
