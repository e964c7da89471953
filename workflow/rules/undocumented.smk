# All uses of undocumented features of Snakemake, in one place.
# tests/whole_run/test_undocumented.py shows what breaks if a new version removes one of them.


def names_a_configuration():
    """Whether the command line, or a profile, names a configuration file."""
    return bool(workflow.config_settings.configfiles)


def configuration_files():
    """The configuration files that were read, in order."""
    return list(workflow.configfiles)


def folder_of_rules():
    """The folder of the current rule file, also if another workflow uses it as a module."""
    return str(workflow.current_basedir)


def cores_given():
    """The total number of cores for jobs; None with --report and some executors."""
    return workflow.resource_settings.cores


def set_default_resource(name, amount):
    """Provide a resource unless --resources or a profile does."""
    workflow.global_resources.setdefault(name, amount)


def provided(name):
    """The provided amount of a resource, as a number."""
    amount = workflow.global_resources[name]
    return getattr(amount, "value", amount)


def start_jobs_at_any_rate():
    """Before jobs start, lift the limit to jobs per second, except on clusters.

    Each job that ends makes Snakemake's scheduler check once more per second whether the limit still
    holds: after 200 jobs, hundreds of threads do so. A higher limit or a shorter interval would only
    make them check more often.
    """
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None
