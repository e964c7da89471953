"""Print the summary of the run in the current folder."""

from pathlib import Path

from anchorflow.summary.page import for_terminal

if __name__ == "__main__":
    print(for_terminal(Path("results/summary.md").read_text(encoding="utf-8")))
