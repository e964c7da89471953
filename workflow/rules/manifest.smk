# Every artifact of the run with its checksum, once all figures and tables are there.


rule write_manifest:
    input:
        finished=FIGURES + TABLES,
        code=code_of("write_manifest"),
    output:
        "results/manifest.json",
    log:
        "logs/write_manifest.log",
    benchmark:
        "results/benchmarks/write_manifest.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        run=named_in_run(),
    message:
        "Listing all artifacts with their checksums"
    script:
        "../scripts/write_manifest.py"
