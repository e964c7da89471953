"""The columns that several tables share."""

from anchorflow.config.table import Column

INDICES = "list<int32>"
MODEL = Column(
    "model", "string", "name of the model in the configuration, or of one of its untrained twins"
)
TASK = Column(
    "task",
    "string",
    "name of the task in the configuration, with other label words after a +; in summaries, also "
    "'average', the mean over tasks",
)
SEED = Column("seed", "int64", "seed of all random draws")
CELL = (MODEL, TASK, SEED)
PROTOCOL = Column(
    "demonstrations",
    "string",
    "per_example: drawn anew for each test example; fixed: one draw per seed; for re-weighting, "
    "training: the fixed ones, before a training text; many: the fixed ones and training texts; "
    "the name of a baseline: the fixed ones, before an additional input; for retrieval, the choice "
    "as in the table retrieval; for perturbations, the perturbation: the fixed ones, before such a "
    "text; for kernel regression, kernel: one draw per seed, as many as the token budget allows; "
    "order-0 and so on: these in several orders; draw-0 and so on: the same number drawn anew; "
    "alone: none",
)
EXAMPLE = Column(
    "example",
    "int32",
    "row of the text in the task's test split (training: training split; baselines: index of the "
    "input)",
)
LABEL = Column(
    "label", "int32", "true label, index into the task's label words; -1 if there is none"
)
LAYER = Column("layer", "int32", "transformer layer, counted from 0")
HEAD = Column("head", "int32", "query head, counted from 0")
SINK = "learned sink"  # a segment without tokens; fields have no blank in their names
DEMONSTRATION = Column("demonstration", "int32", "demonstration, counted from 0 in prompt order")
DEMONSTRATION_LABEL = Column("label", "int32", "label of the demonstration")
DEMONSTRATION_LABELS = Column(
    "demonstration_labels", INDICES, "label of each demonstration, in prompt order"
)
INTERVAL = (
    Column("low", "float64", "lower end of the interval", "as mean"),
    Column("high", "float64", "upper end of the interval", "as mean"),
    Column("examples", "int32", "examples averaged, summed over seeds", "examples"),
    Column("texts", "int32", "distinct texts among the examples", "texts"),
    Column("seeds", "int32", "seeds averaged", "seeds"),
)
_PREDICTION = Column("prediction", "int32", "label with the highest probability")
PREDICTED = (  # whatever the configuration's scoring is
    _PREDICTION,
    Column(
        "probabilities",
        "list<float32>",
        "softmax over the label words' first tokens, with either scoring, in label order; if "
        "labels share one, the first of them has its whole probability",
        "probability",
    ),
)
SCORED = (
    _PREDICTION,
    Column(
        "probabilities",
        "list<float32>",
        "softmax over the label words, in label order: by scoring and word_score in "
        "the configuration reference; in kernel, always over first tokens",
        "probability",
    ),
    Column(
        "label_mass",
        "float32",
        "probability over the whole vocabulary that the next token is the first of a label word, "
        "with either scoring; null for baselines of re-weighting, which change label probabilities "
        "alone",
        "probability",
    ),
    Column(
        "in_labels",
        "bool",
        "whether the likeliest token is such a first token; null where label_mass is",
    ),
)
TOP_TOKENS = Column(
    "top_tokens", INDICES, "the most likely next tokens of the whole vocabulary, in order"
)
TOKEN_GROUPS = Column(
    "token_groups",
    INDICES,
    "for each label, the first label whose word begins with the same token (itself, if no earlier "
    "one does); analyses that follow one token merge the labels of a group",
)
SKIPPED = Column(
    "skipped",
    "int32",
    "examples skipped because their prompt, or a whole label word after it, exceeds the context",
    "examples",
)
KINDS_OF_WEIGHTS = (
    "which attention a_i is a demonstration's weight: max, the largest to any of its tokens; "
    "label, that to its label word, summed over its tokens; mean, over the demonstration's tokens"
)
WEIGHTS = Column("weights", "string", KINDS_OF_WEIGHTS)
OF_TASK = (MODEL, TASK)
VARIANT = Column(
    "variant",
    "string",
    "mask: earlier tokens are hidden before the softmax; zero: their attention is set to 0 after "
    "it; none: the unmodified run",
)
POSITIONS = Column(
    "positions",
    "string",
    "isolated tokens: label, those of label words; random, others of the demonstrations; before "
    "and after, those next to each label word; text, those of each demonstration's own text; none; "
    "hidden: none, but queries see the prompt's first token and the instruction alone",
)
SIDE = Column("side", "string", "which layers are isolated: first, last, or none")
LAYERS = Column("layers", "int32", "number of isolated layers", "layers")
METHOD = Column(
    "method",
    "string",
    "vanilla: plain in-context learning; many: with more demonstrations; reweighted: with "
    "attention to the label words multiplied by exp(β); reweighted_RATE: the same, fitted with "
    "this learning rate; routed: with attention routed by principal directions "
    "(reweighting.routing_rank); the others are baselines, described in the configuration "
    "reference at reweighting.baselines",
)
COMPRESSED = Column(
    "method",
    "string",
    "what is kept of the demonstrations; full: everything; first_only: the first token and "
    "the instruction; "
    "hidden_random_oracle, hidden_random_top: the "
    "most loyal draw of hidden_random, chosen on the same texts or on others; reweighted: "
    "everything, with re-weighted "
    "attention to label words; reweighted_anchor: hidden_anchor, re-weighted; the others are "
    "methods, described in the configuration reference at compression.methods",
)
SHARE = Column(
    "share",
    "float64",
    "largest share of the demonstrations' tokens to keep, without the instruction; null: the "
    "number of anchors, or the number that the method defines",
    "1",
)
CHOICE = Column(
    "choice",
    "string",
    "demonstrations; random: one draw per seed; nearest: those most similar to the test text; "
    "nearest_per_label: the same for each label; the most similar last; "
    "representative: of each label, those nearest to the centers of k-means clusters; outlying: "
    "those farthest from them; other_task: texts of another task under this task's labels; "
    "random_labels: those of random, with their labels in a random order",
)
PERTURBATION = Column(
    "perturbation",
    "string",
    "untouched: none; typos: transposed, missing, doubled, "
    "and neighboring keys; word_order: words in random order; case: letters in the other case; "
    "rare_words: content words replaced by rarer ones",
)
OFFSET = Column("offset", "int32", "position relative to the label word's first token")
SOURCE = Column("source", "string", "what is decoded: key or value")
DECODED = Column(
    "target",
    "string",
    "what is decoded from it: next_token (the most likely token after the demonstration's text in "
    "its template, without demonstrations) or label",
)
