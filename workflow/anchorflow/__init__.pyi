from anchorflow.classifier import InContextClassifier as InContextClassifier
from anchorflow.classifier import ask as ask
from anchorflow.finished_run import Run as Run
from anchorflow.one_prompt.prompt import Prompt as Prompt

__version__: str
__all__ = ["InContextClassifier", "Prompt", "Run", "ask"]
