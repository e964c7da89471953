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
    ),
    asked_for="flow_page.examples",
)
