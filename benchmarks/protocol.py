r"""How long a configuration's whole run takes, estimated for shapes of models and for machines.

Nothing is run: operations are counted from the configuration, with texts of 32 tokens, and divided
by rates. Those of a processor are measured, per core; those of a GPU are given. The last column is
the share of the time in which weights are copied to a GPU: once for all jobs, as on one GPU, or
once for so many jobs as a cluster's job does (``--jobs-per-copy``). A processor maps them instead.

    python benchmarks/protocol.py --configfile config/paper.yaml --shapes gpt2-xl gpt-j-6b
    python benchmarks/protocol.py --configfile config/paper.yaml --shapes gpt2-xl \
        --teraoperations 160 --gigabytes 2000
    python benchmarks/protocol.py --configfile config/paper.yaml --shapes llama-8b llama-70b \
        --texts 200 --teraoperations 400 --gigabytes 4000 --copied-gigabytes 25 --jobs-per-copy 8
"""

import argparse
from pathlib import Path

import torch
import yaml
from models import SHAPES
from transformers import AutoConfig

from anchorflow.config.configuration import complete_configuration
from anchorflow.model.memory import without_numbers
from anchorflow.model.operations import SHARE, Rates, Size, measured_rates, operations, seconds
from anchorflow.model.run_plan import whole_run

SCHEMA = Path(__file__).parents[1] / "workflow/schemas/config.schema.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--configfile", type=Path, required=True)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, required=True)
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16"])
    parser.add_argument("--teraoperations", type=float, help="per second that a GPU reaches")
    parser.add_argument("--gigabytes", type=float, default=2000, help="per second that it reads")
    parser.add_argument(
        "--copied-gigabytes", type=float, default=25, help="per second that reach the GPU"
    )
    parser.add_argument("--jobs-per-copy", type=int, help="jobs that share one; by default, all")
    parser.add_argument("--texts", type=int, help="test texts, if not as many as configured")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = yaml.safe_load(arguments.configfile.read_text(encoding="utf-8"))
    if arguments.texts:
        config["test_examples"] = arguments.texts
    complete_configuration(config, SCHEMA)
    dtype = getattr(torch, arguments.dtype)
    for shape in arguments.shapes:
        kind, settings = SHAPES[shape]
        size = Size.of(without_numbers(AutoConfig.for_model(kind, **settings), dtype))
        if arguments.teraoperations:
            rates = Rates(1e12 * arguments.teraoperations / SHARE, 1e9 * arguments.gigabytes)
        else:
            rates = measured_rates(size, dtype, torch.device("cpu"))
        print(
            f"{shape}, {arguments.dtype}, {SHARE * rates.operations / 1e12:.2f} teraoperations and "
            f"{rates.bytes / 1e9:.1f} GB per second"
        )
        stages = whole_run(config, next(iter(config["models"])), size.layers)
        opening = 0.0  # hours per job
        if arguments.teraoperations:
            weights = size.itemsize * (size.weights + 2 * size.head)
            shared = arguments.jobs_per_copy or sum(planned.jobs for planned in stages.values())
            opening = weights / (1e9 * arguments.copied_gigabytes) / 3600 / shared
        total, every, jobs = 0.0, 0.0, 0
        for stage, planned in stages.items():
            needed = operations(planned.passes, size)
            taken = seconds(planned.passes, size, rates, planned.jobs) / 3600
            taken += planned.jobs * opening
            total, every, jobs = total + taken, every + needed, jobs + planned.jobs
            print(row(stage, planned.jobs, needed, taken, opening))
        print(row("together", jobs, every, total, opening))


def row(stage: str, jobs: int, needed: float, hours: float, opening: float) -> str:
    """One line: jobs, operations, hours, and the share of these that opening takes."""
    share = jobs * opening / hours
    return f"  {stage:15} {jobs:5d} jobs {needed / 1e15:9.1f} Pop {hours:9.2f} h {share:7.1%}"


if __name__ == "__main__":
    main()
