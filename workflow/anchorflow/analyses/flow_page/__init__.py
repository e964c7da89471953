"""Pages of the information flow between the tokens of single prompts ([A] Fig. 1)."""

from anchorflow.config.analysis import INFORMATION, Analysis, Measured

ANALYSIS = Analysis(
    subject="the information-flow pages of {}",
    category=INFORMATION,
    measured=Measured(
        {
            "saliency": "token_saliency",
            "prompts": "shown_prompts",
            "knockouts": "shown_knockouts",
            "heads": "shown_heads",
        },
        first_seed=True,
        message="Measuring saliency between tokens of single prompts of {task} in {model}",
        reads={"prompts": "prompts", "tokenizer": "tokenizers", "model": "models"},
    ),
    asked_for="flow_page.examples",
)
