# Each model's tokenizer and architecture first, so that prompts are checked before loading weights;
# and the weights of its untrained twins.


rule prepare_tokenizer:
    input:
        files=model_files,
    output:
        directory("results/tokenizers/{model}"),
    log:
        "logs/prepare_tokenizer/{model}.log",
    wildcard_constraints:
        model=NAME,  # twins share it
    priority: 20
    conda:
        "../../envs/anchorflow.yaml"
    threads: 1
    params:
        **code_of("prepare_tokenizer"),
        spec=source_spec,
    message:
        "Resolving the tokenizer and architecture of {wildcards.model}"
    script:
        "../../scripts/prepare_tokenizer.py"


rule prepare_model:
    input:
        tokenizer="results/tokenizers/{model}",
        files=model_files,
    output:
        directory("results/models/{model}"),
    log:
        "logs/prepare_model/{model}.log",
    wildcard_constraints:
        model=NAME,  # no twin
    priority: 10
    conda:
        "../../envs/anchorflow.yaml"
    threads: 1
    resources:
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of("prepare_model"),
        spec=weights_spec,
    message:
        "Resolving the weights of {wildcards.model} and checking our attention against eager attention"
    script:
        "../../scripts/prepare_model.py"


rule prepare_untrained:
    input:
        tokenizer="results/tokenizers/{model}",
        model="results/models/{model}",
    output:
        directory("results/models/{model}+{kind}-{draw}"),
    log:
        "logs/prepare_untrained/{model}+{kind}-{draw}.log",
    wildcard_constraints:
        model=NAME,
        kind=KIND,
        draw="[0-9]+",
    priority: 10
    conda:
        "../../envs/anchorflow.yaml"
    threads: 1
    resources:
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of("prepare_untrained"),
    message:
        "Making an untrained twin of {wildcards.model}: {wildcards.kind}, draw {wildcards.draw}"
    script:
        "../../scripts/prepare_untrained.py"
