# Summaries per model, their figures, and tables over all models: a rule each for every entry of
# PRESENTED in workflow/anchorflow/config/stages.py, which says what it reads. They are
#   rule summarize_flow, rule plot_flow, rule tabulate_flow
#   rule summarize_loyalty, rule plot_loyalty, rule tabulate_loyalty
#   rule summarize_knockouts, rule plot_knockouts, rule tabulate_knockouts
#   rule summarize_faithful, rule plot_faithful, rule tabulate_faithful
#   rule summarize_cutoffs, rule plot_cutoffs, rule tabulate_cutoffs
#   rule summarize_transplants, rule plot_transplants, rule tabulate_transplants
#   rule summarize_deep, rule plot_deep, rule tabulate_deep
#   rule summarize_label_words, rule plot_label_words, rule tabulate_label_words
#   rule summarize_performance, rule tabulate_performance
#   rule plot_reweighting
#   rule summarize_retention, rule plot_retention, rule tabulate_retention
#   rule plot_timing, rule tabulate_timing
#   rule summarize_confusion, rule plot_confusion, rule tabulate_confusion
#   rule summarize_neighbors, rule plot_neighbors, rule tabulate_neighbors
#   rule summarize_robustness, rule plot_robustness, rule tabulate_robustness
#   rule summarize_order_effects, rule plot_order_effects, rule tabulate_order_effects
#   rule summarize_convergence, rule plot_convergence, rule tabulate_convergence
#   rule summarize_heads, rule plot_heads, rule tabulate_heads
#   rule summarize_landing, rule plot_landing, rule tabulate_landing
#   rule summarize_regressors, rule plot_regressors, rule tabulate_regressors
#   rule summarize_decoding, rule plot_decoding, rule tabulate_decoding
#   rule summarize_claims, rule plot_claims, rule tabulate_claims
#   rule summarize_accuracy, rule tabulate_accuracy


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
            priority: PRIORITIES.get(f"summarize_{shown.name}", 0)
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
            priority: PRIORITIES.get(f"plot_{shown.name}", 0)
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
