"""Pages of the documentation that are made from the code or from a finished run."""

from pathlib import Path

ROOT = Path(__file__).parents[3]
