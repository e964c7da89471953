# Each model's tokenizer and architecture first, so that prompts are checked before weights move.


rule resolve_tokenizer:
    input:
        files=model_files,
        code=code_of("resolve_tokenizer"),
    output:
        directory("results/tokenizers/{model}"),
    log:
        "logs/resolve_tokenizer/{model}.log",
    benchmark:
        "results/benchmarks/resolve_tokenizer/{model}.tsv"
    priority: 20
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        spec=source_spec,
    message:
        "Resolving the tokenizer and architecture of {wildcards.model}"
    script:
        "../scripts/resolve_tokenizer.py"


rule resolve_model:
    input:
        tokenizer="results/tokenizers/{model}",
        files=model_files,
        code=code_of("resolve_model"),
    output:
        directory("results/models/{model}"),
    log:
        "logs/resolve_model/{model}.log",
    benchmark:
        "results/benchmarks/resolve_model/{model}.tsv"
    priority: 10
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    resources:
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        spec=weights_spec,
    message:
        "Resolving the weights of {wildcards.model} and checking them against eager attention"
    script:
        "../scripts/resolve_model.py"
