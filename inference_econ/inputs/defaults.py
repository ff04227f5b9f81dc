"""Values that every command, scenario and question takes where nothing is given."""

#: Lengths of requests [tokens].
DEFAULT_ISL, DEFAULT_OSL = 2000, 500
#: Context of decode steps of such requests on average [tokens].
MEAN_CONTEXT = DEFAULT_ISL + DEFAULT_OSL / 2
#: Speed of one user for which tokens are priced where nobody promises one and no offers say what is usual; ours, not a
#: measurement [tokens/s].
USUAL_TOKENS_PER_SECOND = 20.0
#: Constants that are fitted where none are named.
USUAL_CONSTANTS = (
    *("chip.math_efficiency", "experts.math_efficiency", "chip.hbm_efficiency", "experts.hbm_efficiency"),
    *("host.graph_launch", "host.step_overhead"),
)
#: Deployments that are fitted at most; more are thinned evenly [1].
MOST_DEPLOYMENTS = 150
