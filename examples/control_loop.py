"""A 1 kHz controller in C++ without Python: exported inverse dynamics holds an exported arm.

Writes a folder with two exports and a program in the manner of ros2_control: a hardware interface
that is read and written, here the exported step of a simulator, and a controller whose `update`
runs every millisecond. Compiles and runs it if there is a C++ compiler.

    python examples/control_loop.py [folder]
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import phipsi as pp

LOOP = """#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include "control/control.hpp"
#include "plant/plant.h"

using Vector = std::array<double, CONTROL_NV>;
using Clock = std::chrono::steady_clock;

class Hardware {  // on a robot: buses and encoders
 public:
  void read(Vector &q, Vector &v) const { q = q_, v = v_; }
  int write(const Vector &tau) {
    return plant_step(q_.data(), v_.data(), &t_, &step_, tau.data(), work_);
  }

 private:
  Vector q_{}, v_{};
  double t_ = 0, step_ = 0;
  alignas(16) unsigned char work_[PLANT_WORK];
};

class ComputedTorque {  // no allocation, no locks, no library: the same time for every state
 public:
  int update(const Vector &q, const Vector &v, const Vector &target, Vector &tau) {
    Vector vdot;
    for (std::size_t i = 0; i < q.size(); i++) vdot[i] = 100 * (target[i] - q[i]) - 20 * v[i];
    return control::inverse_dynamics(q, v, vdot, tau, work_);
  }

 private:
  control::Work work_;
};

int main(int argc, char **argv) {
  const int cycles = argc > 1 ? std::atoi(argv[1]) : 1000;
  const auto period = std::chrono::milliseconds(1);
  Hardware hardware;
  ComputedTorque controller;
  Vector q, v, tau, target;
  target.fill(0.5);
  double worst = 0, total = 0, late = 0;
  auto next = Clock::now();
  for (int i = 0; i < cycles; i++) {
    std::this_thread::sleep_until(next);
    const auto begin = Clock::now();
    late = std::max(late, std::chrono::duration<double, std::micro>(begin - next).count());
    hardware.read(q, v);
    if (int status = controller.update(q, v, target, tau)) {
      std::printf("stopped: %s\\n", control_status_text(status));
      return 1;
    }
    const double took = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    worst = std::max(worst, took), total += took;
    if (hardware.write(tau)) return 1;
    next += period;
  }
  double error = 0;
  for (std::size_t i = 0; i < q.size(); i++) error = std::max(error, std::abs(target[i] - q[i]));
  std::printf("%d cycles; update %.2f us on average, %.2f at worst; woken %.0f us late at worst\\n",
              cycles, total / cycles, worst, late);
  std::printf("farthest joint is %.4f rad from its target\\n", error);
}
"""


def main(folder: Path) -> None:
    arm = pp.examples.seven_joint_arm()
    print(pp.export(arm, folder / "control", what="inverse_dynamics", name="control"))
    print(pp.export({}, folder / "plant", name="plant", step=pp.Simulator(arm, dt=1e-3)))
    (folder / "loop.cpp").write_text(LOOP)
    if shutil.which("g++") is None:
        print("there is no g++: compile loop.cpp with the two objects")
        return
    words = "g++ -std=c++20 -O2 loop.cpp control/control.o plant/plant.o -o loop"
    subprocess.run(words.split(), cwd=folder, check=True)
    subprocess.run(["./loop", "1000"], cwd=folder, check=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
