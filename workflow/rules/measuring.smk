# The rules measure_{analysis} of all analyses whose declaration has a message. The others, which differ
# in more than this file knows, have a rule file of their own.


def override_spec(wildcards):
    """With the settings of the fit; nothing is fitted to untrained twins.

    These have as many texts, since answers exchanged between few texts are no estimates.
    """
    spec = section("override")(wildcards)
    spec.pop("examples", None)
    spec |= texts_of("override", config)
    if is_untrained(wildcards.model):
        spec["ways"] = [way for way in spec["ways"] if not way.startswith("reweighted")]
    fit = ("examples_per_label", "learning_rates", "epochs", "batch_size")
    fitted = any(way.startswith("reweighted") for way in spec["ways"])
    return {
        **spec,
        "positions": config["compression"]["positions"],
        **({"fit": {k: config["reweighting"][k] for k in fit}} if fitted else {}),
    }


# What some analyses depend on in place of their own section of the configuration.
OTHER_SPECS = {
    "faithfulness": lambda wildcards: {
        **section("faithfulness")(wildcards),
        "draws": config["knockout"]["draws"],
    },
    "flow_page": {
        "examples": config["flow_page"]["examples"],
        "demonstrations": config["flow"]["demonstrations"],
    },
    "orders": lambda wildcards: asked("orders.count"),
    "override": override_spec,
}

# Files that some analyses load by name.
FURTHER_MODULES = {"override": ["analyses/compression/methods/hidden_anchor.py"]}

MEASURED_ALIKE = {
    name: known.measured
    for name, known in ANALYSES.items()
    if known.measured and known.measured.message
}


def read_in_cell(read):
    """What a job reads of a stage, or of ``stage/file``, for its model, task and seed."""
    if read == "tokenizers":
        return tokenizer_of
    if read == "models":
        return "results/models/{model}"
    name, _, file = read.partition("/")
    return {inner: path for inner, _, path in STAGES[name].files()}[file]


def prompts_with_same_words(wildcards):
    """The prompts of another task with a cell's label words, if these are transplanted from."""
    if "other_task" not in config["transplant"]["donors"]:
        return []
    other = with_same_words(wildcards.task, config["tasks"])
    return (
        f"results/prompts/{wildcards.model}/{other}/{wildcards.seed}.parquet"
        if other
        else []
    )


# What some read besides, if the configuration asks for it.
OTHER_READS = {"transplant": {"other_task": prompts_with_same_words}}


def params_of_measuring(name, declared):
    """The code and the settings of an analysis; attention has no section."""
    params = analysis(name, *FURTHER_MODULES.get(name, ()))
    if name in config:
        params["spec"] = OTHER_SPECS.get(name, section(name, *declared.without))
    if declared.builds_prompts:
        params["task"] = prompts_spec
    if declared.scored:
        params["scoring"] = scoring_spec
    return params


# Found by a search: rule measure_{analysis}, such as rule measure_flow, rule measure_isolation, rule
# measure_kernel; all of them come from this loop.
for name, declared in MEASURED_ALIKE.items():

    rule:
        name:
            f"measure_{name}"
        input:
            **{key: read_in_cell(read) for key, read in declared.reads.items()},
            **OTHER_READS.get(name, {}),
        output:
            *([] if declared.tables else [measured(name)]),
            **{table: measured(name, table) for table in declared.tables},
        log:
            f"logs/measure_{name}/{part_of(name)}.log",
        priority: PRIORITIES.get(f"measure_{name}", 0)
        conda:
            "../envs/anchorflow.yaml"
        threads: config["compute"]["threads"]
        resources:
            gpu=gpus_of,
            mem_mb=memory_of,
            runtime=runtime_of,
        params:
            **params_of_measuring(name, declared),
        message:
            declared.message.format(model="{wildcards.model}", task="{wildcards.task}")
            + ", seed {wildcards.seed}"
            + (OF_PART if declared.sharded else "")
        script:
            "../scripts/{params.script}.py"
