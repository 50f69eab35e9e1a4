"""Forward dynamics called from C++: our exported function, and Pinocchio's `aba`, taking turns.

    python benchmarks/exported_calls.py          writes benchmarks/EXPORTED_CALLS.md

Both are in one program and take turns on the same states; figures are the best of many rounds, in
processor time. Pinocchio is the library of its wheel, which comes with its headers. The program
needs g++ and the headers of Eigen and urdfdom:  apt install libeigen3-dev liburdfdom-headers-dev
(or name the folder that holds them:  HEADERS=…/usr/include).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import numpy as np
from machine import machine
from robots import ROBOTS, Pinocchio, States, load_robot, urdf_path

import phipsi as pp

HERE = Path(__file__).parent
PREFIX = Path(sysconfig.get_paths()["purelib"]) / "cmeel.prefix"
COUNT, ROUNDS, GOAL = 32, 3000, 0.35
CHOSEN = ("UR5", "Panda", "ANYmal", "Talos", "G1")
DEFINED = (
    "BOOST_MPL_LIMIT_LIST_SIZE=30", "BOOST_MPL_LIMIT_VECTOR_SIZE=30",
    "BOOST_MPL_CFG_NO_PREPROCESSED_HEADERS", "BOOST_FUSION_INVOKE_MAX_ARITY=12",
    "PINOCCHIO_WITH_URDFDOM", "PINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION", "NDEBUG",
)  # fmt: skip
PROGRAM = r"""
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/parsers/urdf.hpp>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>
#include "robot.h"
typedef Eigen::VectorXd Vector;
typedef Eigen::Ref<const Vector> Given;
static double now() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
static std::vector<Vector> rows(const char *name, int size, int count) {
  std::vector<Vector> out(count, Vector(size));
  FILE *f = std::fopen(name, "rb");
  for (auto &x : out)
    if (std::fread(x.data(), 8, size, f) != (size_t)size) std::abort();
  std::fclose(f);
  return out;
}
int main(int, char **given) {
  pinocchio::Model model;
  const std::string path = given[1];
  if (std::string(given[2]) == "free")
    pinocchio::urdf::buildModel(path, pinocchio::JointModelFreeFlyer(), model);
  else
    pinocchio::urdf::buildModel(path, model);
  pinocchio::Data data(model);
  const int count = std::atoi(given[3]), rounds = std::atoi(given[4]);
  auto q = rows("q", ROBOT_NQ, count), v = rows("v", ROBOT_NV, count),
       tau = rows("tau", ROBOT_NV, count);
  auto pq = rows("pq", model.nq, count), pv = rows("pv", model.nv, count),
       ptau = rows("ptau", model.nv, count);
  std::vector<double> work(ROBOT_WORK / 8 + 1), vdot(ROBOT_NV);
  double best[2] = {1e9, 1e9}, sum = 0;
  int status = 0;
  for (int r = 0; r < rounds; r++) {
    double start = now();
    for (int i = 0; i < count; i++)
      status |= robot_forward_dynamics(q[i].data(), v[i].data(), tau[i].data(), vdot.data(),
                                       work.data());
    double middle = now();
    for (int i = 0; i < count; i++)
      sum += pinocchio::aba(model, data, Given(pq[i]), Given(pv[i]), Given(ptau[i]),
                            pinocchio::Convention::CONVENTION)[0];
    double end = now();
    best[0] = std::min(best[0], (middle - start) / count);
    best[1] = std::min(best[1], (end - middle) / count);
  }
  double norm = 0;
  for (int i = 0; i < ROBOT_NV; i++) norm += vdot[i] * vdot[i];
  std::printf("%.4f %.4f %d %.17g\n", 1e6 * best[0], 1e6 * best[1], status,
              norm - (1e-300 * sum));
}
"""


def headers() -> list[str]:
    """Folders with Eigen and urdfdom."""
    for place in (os.environ.get("HEADERS", ""), "/usr/include"):
        if place and (Path(place) / "eigen3/Eigen/Core").is_file():
            return [f"{place}/eigen3", place, f"{place}/urdfdom_headers"]
    sys.exit("Eigen is not installed:  apt install libeigen3-dev liburdfdom-headers-dev")


def measured(name: str, convention: str) -> tuple[float, float, int]:
    """Microseconds of our call and of Pinocchio's, and degrees of freedom."""
    model = load_robot(name)
    states = States(model, COUNT)
    peer = Pinocchio(name, model, states)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        pp.export(model, here / "robot", what="forward_dynamics")
        arrays = {"q": states.q, "v": states.v, "tau": states.tau}
        arrays |= {"pq": peer.q, "pv": peer.v, "ptau": peer.tau}
        for key, x in arrays.items():
            np.ascontiguousarray(x[:COUNT], dtype=np.float64).tofile(here / key)
        (here / "call.cpp").write_text(PROGRAM.replace("CONVENTION)", f"{convention})"))
        folders = [PREFIX / "include", *headers(), PREFIX / "include/urdfdom", "robot"]
        words = [shutil.which("g++") or sys.exit("g++ is not installed"), "-std=c++17", "-O2", "-w"]
        words += [f"-D{x}" for x in DEFINED] + [f"-I{x}" for x in folders]
        words += [
            "call.cpp",
            "robot/robot.o",
            f"-L{PREFIX / 'lib'}",
            f"-Wl,-rpath,{PREFIX / 'lib'}",
        ]
        words += ["-lpinocchio_default", "-lpinocchio_parsers"]
        words += ["-Wl,--unresolved-symbols=ignore-in-shared-libs", "-o", "call"]
        subprocess.run([str(w) for w in words], cwd=here, check=True)
        base = ROBOTS[name][1]
        command = ["./call", urdf_path(name), base, str(COUNT), str(ROUNDS)]
        said = subprocess.run(command, cwd=here, check=True, capture_output=True, text=True).stdout
    ours, theirs, status, norm = said.split()
    vdot = pp.forward_dynamics(model, states.q[-1], states.v[-1], states.tau[-1])
    assert int(status) == 0 and abs(float(norm) / (vdot @ vdot) - 1) < 1e-9, said
    return float(ours), float(theirs), model.nv


def main() -> None:
    """Measure, and write the table."""
    chosen = sys.argv[1:] or CHOSEN
    about = machine()
    lines = [
        "# Calls from C++",
        "",
        "Forward dynamics of one configuration, called from C++: the function that `pp.export` writes for this machine, and",
        "`pinocchio::aba` of the wheel's own library. Both take turns in one program on the same states; best of "
        f"{ROUNDS} rounds",
        f"of {COUNT} states in processor time. Written by `benchmarks/exported_calls.py`, "
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, {about['cpu']},",
        f"libpinocchio {about['versions']['libpinocchio']}, load {about['load before']}.",
        "",
        "| robot | degrees of freedom | exported, µs | Pinocchio, µs | ratio | goal |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name in chosen:
        found = [measured(name, x) for x in ("LOCAL", "WORLD")]
        ours, theirs = (min(x[i] for x in found) for i in range(2))
        goal = f"≤ {GOAL}" if name in ("UR5", "G1") else ""
        lines.append(
            f"| {name} | {found[0][2]} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} | {goal} |"
        )
        print(lines[-1], flush=True)
    lines += [
        "",
        "Pinocchio has two ways, in local and in world coordinates; the quicker one counts.",
    ]
    (HERE / "EXPORTED_CALLS.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
