"""Try a device: everything that touches one, there and on the CPU, as a table.

`python -m benchmarks.device --device cuda` is the command for a GPU. `--device pretend` is a device
in Python, which finds tensors that are in the wrong place on a machine without a GPU.
"""

import argparse
import sys
import time
from contextlib import nullcontext

import torch

import larc
from benchmarks.device.pretend import DEVICE, SecondDevice, register
from benchmarks.device.scenarios import SCENARIOS

#: How far probabilities and factors may be apart: sums of float32 in another order.
FLOAT32 = 1e-3
#: The same in bfloat16, where another order rounds otherwise.
BFLOAT16 = 0.05


def tried(name, device):
    """Return a scenario's largest difference from the CPU and its time there over the CPU's."""
    loading, scenario = SCENARIOS[name]
    seconds, results = [], []
    for place in ("cpu", device):
        substrate = larc.load_substrate(**loading, device=place)
        began = time.perf_counter()
        results.append(scenario(substrate))
        seconds.append(time.perf_counter() - began)
    pairs = list(zip(*results, strict=True))
    if any(one.shape != other.shape for one, other in pairs):
        raise larc.LarcError("it answers in other shapes; report this.")
    difference = max(float((one - other).abs().max()) for one, other in pairs)
    allowed = BFLOAT16 if "dtype" in loading else FLOAT32
    if not difference <= allowed:
        raise larc.LarcError(f"it differs by {difference:.1e}, more than {allowed}; report this.")
    return difference, seconds[1] / seconds[0]


def told(error):
    """Return an error in a line, with where in larc it came from."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    ours = [frame for frame in frames if "/larc/" in frame]
    what = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {what} ({', '.join(reversed(ours[-3:]))})"


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device", description=__doc__)
    parser.add_argument("--device", default="cuda", help="cuda, mps, ... or pretend [cuda]")
    parser.add_argument("--only", action="append", default=[], metavar="SCENARIO")
    given = parser.parse_args()
    torch.set_num_threads(1)
    pretend = given.device == "pretend"
    if pretend:
        register()
    device = DEVICE if pretend else given.device
    print(f"torch {torch.__version__}, {device}", flush=True)
    print("| | largest difference from the CPU | its time over the CPU's |\n| --- | --- | --- |")
    wrong = 0
    with SecondDevice() if pretend else nullcontext():
        for name in given.only or SCENARIOS:
            try:
                difference, ratio = tried(name, device)
            except Exception as error:  # whatever it is, the others are tried too
                wrong += 1
                print(f"| {name} | {told(error)} | |", flush=True)
            else:
                print(f"| {name} | {difference:.0e} | {ratio:.2g} |", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
