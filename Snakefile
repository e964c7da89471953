# The workflow is workflow/Snakefile. This file lets Snakemake find it, and the profiles, from here.


include: "workflow/Snakefile"


rule everything:
    default_target: True
    input:
        rules.all.input,
