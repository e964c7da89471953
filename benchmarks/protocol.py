r"""How long a configuration's whole run takes, estimated for shapes of models and for machines.

Nothing is run: operations are counted from the configuration, with texts of 32 tokens, and divided
by rates. Those of a processor are measured, per core; those of a GPU are given.

    python benchmarks/protocol.py --configfile config/paper.yaml --shapes gpt2-xl gpt-j-6b
    python benchmarks/protocol.py --configfile config/paper.yaml --shapes gpt2-xl \
        --teraoperations 160 --gigabytes 2000
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
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = yaml.safe_load(arguments.configfile.read_text(encoding="utf-8"))
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
        total, every = 0.0, 0.0
        for stage, planned in whole_run(config, next(iter(config["models"])), size.layers).items():
            needed = operations(planned.passes, size)
            taken = seconds(planned.passes, size, rates, planned.jobs) / 3600
            total, every = total + taken, every + needed
            print(f"  {stage:15} {planned.jobs:5d} jobs {needed / 1e15:9.1f} Pop {taken:9.2f} h")
        print(f"  {'together':15} {'':10} {every / 1e15:9.1f} Pop {total:9.2f} h")


if __name__ == "__main__":
    main()
