# Summaries per model, their figures, and tables over all models: one rule each for every entry of
# PRESENTED in workflow/anchorflow/config/stages.py.


def module_of(verb, name):
    """The file of the package that a rule for results loads by name."""
    path = ROOT / "workflow" / "anchorflow" / verb
    inner = f"{name}/__init__.py" if (path / name).is_dir() else f"{name}.py"
    return f"{verb}/{inner}" if (path / inner).is_file() else f"{verb}/plain.py"


def code_of_presenting(verb, name):
    """The code of a rule for results, including the files of claims where needed."""
    further = claim_modules() if name == "claims" and verb != "tabulate" else []
    if verb == "summarize":
        further.append(code.schema_of(name))
    return code_of(verb, module_of(verb, name), *further)


def how_shown(kind, shown):
    """How the report presents a figure or a table.

    The report turns a label with two values that all figures of a category share into a switch, so
    labels that do not apply are left out.
    """
    alone = (
        kind == "figure" and not shown.of_models
    )  # beside others, it would undo their switch
    of_model = {"model": "{model}"} if kind == "figure" and shown.of_models else {}
    return {
        "caption": f"../report/{shown.name}.rst",
        "category": shown.category,
        "subcategory": "Random worlds" if alone else f"{kind.title()}s",
        "labels": {kind: getattr(shown, kind), **of_model},
    }


for shown in PRESENTED:
    # A run none of whose tasks has other label words can't be asked for what compares them, nor one
    # that lists nothing of a kind for what is listed.
    in_run = label_word_sets(config) if shown.with_words else listed_at(shown.asked_for)

    if shown.summary:

        rule:
            name:
                f"summarize_{shown.name}"
            input:
                **{
                    name: files_of(read, shown.with_words)
                    for name, read in shown.read_in(listed_at).items()
                },
                **{
                    name: files_of(read, null=null)
                    for null in NULLS
                    for name, read in shown.null_reads(
                        null, config["controls"]
                    ).items()
                    if listed_at(asked_for(read))
                },
                **{
                    name: files_of(read, with_words=True)
                    for name, read in shown.worded.items()
                    if label_word_sets(config)
                },
                **{
                    name: files_of(read)
                    for name, read in shown.further.items()
                    if listed_at(shown.further_for)
                },
            output:
                f"results/{shown.name}/{shown.path}.parquet",
            log:
                f"logs/summarize_{shown.name}/{shown.path}.log",
            priority: FIRST if shown.name == FIRST_FIGURE else 0
            group:
                "presenting"
            conda:
                "../envs/anchorflow.yaml"
            threads: 1
            resources:
                **({"mem_mb": memory_of, "runtime": runtime_of} if shown.heavy else {}),
            params:
                **{part: SLICES[part] for part in shown.slices},
                **code_of_presenting("summarize", shown.name),
                presents=shown.name,
            message:
                f"Summarizing {shown.subject.format('{wildcards.model}')}"
            script:
                "../scripts/summarize.py"

    if shown.figure:
        if in_run:
            FIGURES += expand(
                f"results/figures/{shown.name}/{shown.path}.{{kind}}",
                model=config["models"] if shown.of_models else WORLDS,
                kind=["pdf", "png"],
            )

        rule:
            name:
                f"plot_{shown.name}"
            input:
                **{name: files_of(read) for name, read in shown.shows().items()},
            output:
                pdf=f"results/figures/{shown.name}/{shown.path}.pdf",
                png=report(
                    f"results/figures/{shown.name}/{shown.path}.png",
                    **how_shown("figure", shown),
                ),
            log:
                f"logs/plot_{shown.name}/{shown.path}.log",
            priority: FIRST if shown.name == FIRST_FIGURE else 0
            group:
                "presenting"
            conda:
                "../envs/anchorflow.yaml"
            threads: 1
            params:
                **{part: SLICES[part] for part in shown.figure_slices},
                **code_of_presenting("plot", shown.name),
                presents=shown.name,
            message:
                f"Plotting {shown.subject.format('{wildcards.model}')}"
            script:
                "../scripts/plot.py"

    if shown.table:
        if in_run:
            TABLES += expand(
                f"results/tables/{shown.name}.{{kind}}", kind=["csv", "md", "html"]
            )

        rule:
            name:
                f"tabulate_{shown.name}"
            input:
                **{
                    name: files_of(read, all_models=True)
                    for name, read in shown.shows().items()
                },
            output:
                csv=f"results/tables/{shown.name}.csv",
                md=f"results/tables/{shown.name}.md",
                html=report(
                    f"results/tables/{shown.name}.html", **how_shown("table", shown)
                ),
            log:
                f"logs/tabulate_{shown.name}.log",
            group:
                "presenting"
            conda:
                "../envs/anchorflow.yaml"
            threads: 1
            params:
                **code_of_presenting("tabulate", shown.name),
                presents=shown.name,
                title=shown.table,
            message:
                f"Tabulating {shown.subject.format('all models')}"
            script:
                "../scripts/tabulate.py"
