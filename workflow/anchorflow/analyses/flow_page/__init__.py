"""Pages of the information flow between the tokens of single prompts ([A] Fig. 1)."""

from anchorflow.config.analysis import INFORMATION, Analysis, Measured
from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

TOKEN_SALIENCY = table(
    "token_saliency",
    "one per (example, layer, token), for the examples that have an information-flow page",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    Column("token", "int32", "i: the token that information flows to"),
    Column(
        "significance",
        "list<float32>",
        "I_l(i, j): significance of the flow from each earlier token j < i, in order",
        "nats",
    ),
    keys="model task seed example layer token",
)

SHOWN_PROMPTS = table(
    "shown_prompts",
    "one per example that has an information-flow page",
    *f.CELL,
    f.PROTOCOL,
    f.EXAMPLE,
    f.LABEL,
    *f.PREDICTED,
    Column(
        "texts",
        "list<string>",
        "each token of the prompt as text; U+FFFD for bytes that are not valid text alone",
    ),
    f.TOKEN_GROUPS,
    Column("query", "string", "the query's tokens together as text, with its template"),
    Column("strongest_wp", "int32", "layer of the largest S_wp"),
    Column("strongest_pq", "int32", "layer of the largest S_pq"),
    keys="model task seed example",
)

SHOWN_KNOCKOUTS = table(
    "shown_knockouts",
    "one per (example, edges, layer), for the examples that have an information-flow page; "
    "attention is hidden before the softmax in that layer alone",
    *f.CELL,
    f.EXAMPLE,
    Column(
        "edges",
        "string",
        "which edges are cut: before_to_label (S_wp), label_to_target (S_pq), others (S_ww), "
        "equal_to_target (random keys of the target that hold as much attention as S_pq)",
    ),
    f.LAYER,
    Column("loss_change", "float64", "change of the loss of the true label due to the cut", "nats"),
    *f.PREDICTED,
    keys="model task seed example edges layer",
)

SHOWN_HEADS = table(
    "shown_heads",
    "one per (example, layer, head, token up to the target), for the examples that have an "
    "information-flow page; empty if where the model's heads write is not known",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    Column("head", "int32", "head, counted from 0"),
    Column("token", "int32", "j: the token that the target attends to"),
    Column("attention", "float32", "α: the target's attention to the token", "1"),
    Column(
        "writes",
        "list<float32>",
        "φ: direct effect of the token through this head on the logit of each class of labels, "
        "minus the mean of the other classes'; labels whose words begin alike are one class, "
        "classes are in the order of their first labels",
        "logits",
    ),
    keys="model task seed example layer head token",
)


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
