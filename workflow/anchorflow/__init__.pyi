from anchorflow.classifier import InContextClassifier as InContextClassifier
from anchorflow.finished_run import Run as Run

__version__: str
__all__ = ["InContextClassifier", "Run"]
