# Summaries per model, their figures, and tables over all models: the rules summarize_{analysis},
# plot_{analysis} and tabulate_{analysis} for what each analysis declares in its folder's __init__, and
# for the claims.


def claim_modules():
    """The files of all claims."""
    return [f"{place}.py" for place in claim_places()]


def code_of_presenting(verb, name):
    """The code of a rule that presents, including the files of claims where needed."""
    file = f"{folder_of(name)}/{verb}.py"
    modules = [file] if file_of(file).is_file() else []
    if name == "claims" and verb != "tabulate":
        modules += claim_modules()
    return {"analysis": name, **code_of(verb, *modules)}


def declared_table(name):
    """What a table follows from that has no module of its own; else its title."""
    folder, shown = folder_of(name), PRESENTED[name].table
    if file_of(f"{folder}/tabulate.py").is_file():
        return shown.title
    return str([digests.without_words(part) for part in (shown, measures_of(name))])


def inputs_of_summary(name):
    """Input files by argument; those of claims include nulls and other label words."""
    with_words = PRESENTED[name].summary.with_words
    reads = reads_of(name, listed_at)
    seeds = name if name in STAGES else None
    inputs = {
        key: files_of(read, with_words, as_far_as=seeds) for key, read in reads.items()
    }
    if name != "claims":
        return inputs
    for null in NULLS:
        for key, read in null_reads(null, config["controls"]).items():
            if listed_at(STAGES[read.partition("/")[0]].asked_for):
                inputs[key] = files_of(read, null=null)
    if label_word_sets(config):
        inputs["worded_predictions"] = files_of("attention/predictions", True)
    return inputs


def inputs_of_presenting(name, presented, all_models=False):
    """Input files of a figure or a table by argument: the summary, unless it declares others."""
    reads = presented.reads or {"summary": f"summaries/{name}"}
    inputs = {key: files_of(read, all_models=all_models) for key, read in reads.items()}
    measured_in_twins = null_stages("untrained", config["controls"])
    for argument, read in presented.untrained.items():
        if read.partition("/")[0] in measured_in_twins:
            inputs[argument] = files_of(read, null="untrained")
    return inputs


def how_shown(kind, name):
    """How the report presents a figure or a table.

    The report turns a label with two values that all figures of a category share into a switch, so
    labels that do not apply are left out.
    """
    analysis = PRESENTED[name]
    # A figure without a model would undo the switch between the others.
    alone = kind == "figure" and analysis.path == WORLDS
    of_model = {"model": "{model}"} if kind == "figure" and not alone else {}
    return {
        "caption": str(file_of(f"{folder_of(name)}/caption.rst")),
        "category": analysis.category,
        "subcategory": "Random worlds" if alone else f"{kind.title()}s",
        "labels": {kind: getattr(analysis, kind).title, **of_model},
    }


# Found by a search: rule summarize_{analysis}, rule plot_{analysis}, rule tabulate_{analysis}, such as
# rule summarize_flow, rule plot_flow, rule tabulate_flow; all of them come from this loop.
for name, presented in PRESENTED.items():
    if presented.summary:

        rule:
            name:
                f"summarize_{name}"
            input:
                **inputs_of_summary(name),
            output:
                f"results/summaries/{name}/{presented.path}.parquet",
            log:
                f"logs/summarize_{name}/{presented.path}.log",
            priority: PRIORITIES.get(f"summarize_{name}", 0)
            group:
                "presenting"
            conda:
                "../envs/anchorflow.yaml"
            threads: 1
            resources:
                **(
                    {"mem_mb": memory_of, "runtime": runtime_of}
                    if presented.summary.heavy
                    else {}
                ),
            params:
                **settings_named(presented.summary.settings, config),
                **code_of_presenting("summarize", name),
                examples=texts_summarized(name, config),
            message:
                f"Summarizing {presented.subject.format('{wildcards.model}')}"
            script:
                "../scripts/summarize.py"

    if presented.figure:
        if in_run(presented):
            FINAL_FIGURES += expand(
                f"results/figures/{name}/{presented.path}.{{kind}}",
                model=config["models"],
                kind=FIGURE_FORMATS,
            )

        rule:
            name:
                f"plot_{name}"
            input:
                **inputs_of_presenting(name, presented.figure),
            output:
                **{
                    kind: f"results/figures/{name}/{presented.path}.{kind}"
                    for kind in FIGURE_FORMATS[:-1]
                },
                png=report(
                    f"results/figures/{name}/{presented.path}.png",
                    **how_shown("figure", name),
                ),
            log:
                f"logs/plot_{name}/{presented.path}.log",
            priority: PRIORITIES.get(f"plot_{name}", 0)
            group:
                "presenting"
            conda:
                "../envs/anchorflow.yaml"
            threads: 1
            params:
                **settings_named(("style", *presented.figure.settings), config),
                **code_of_presenting("plot", name),
            message:
                f"Plotting {presented.subject.format('{wildcards.model}')}"
            script:
                "../scripts/plot.py"

    if presented.table:
        if in_run(presented):
            FINAL_TABLES += expand(
                f"results/tables/{name}.{{kind}}", kind=["csv", "md", "html", "tex"]
            )

        rule:
            name:
                f"tabulate_{name}"
            input:
                **inputs_of_presenting(name, presented.table, all_models=True),
            output:
                csv=f"results/tables/{name}.csv",
                md=f"results/tables/{name}.md",
                tex=f"results/tables/{name}.tex",
                html=report(f"results/tables/{name}.html", **how_shown("table", name)),
            log:
                f"logs/tabulate_{name}.log",
            group:
                "presenting"
            conda:
                "../envs/anchorflow.yaml"
            threads: 1
            params:
                **code_of_presenting("tabulate", name),
                declared=declared_table(name),
            message:
                f"Tabulating {presented.subject.format('all models')}"
            script:
                "../scripts/tabulate.py"
