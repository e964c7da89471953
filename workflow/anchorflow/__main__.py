"""``python -m anchorflow`` is the command ``anchorflow``."""

from anchorflow.command.entry import main

if __name__ == "__main__":
    main()
