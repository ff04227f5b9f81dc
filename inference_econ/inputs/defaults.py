"""Values that every command, scenario and question takes where nothing is given."""

#: Lengths of requests [tokens].
DEFAULT_ISL, DEFAULT_OSL = 2000, 500
#: Context of decode steps of such requests on average [tokens].
MEAN_CONTEXT = DEFAULT_ISL + DEFAULT_OSL / 2
#: Speed of one user for which tokens are priced where nobody promises one and no offers say what is usual; ours, not a
#: measurement [tokens/s].
USUAL_TOKENS_PER_SECOND = 20.0
#: Time between an answer and the next request of a user; assumed, as in the traffic ``chat`` [s].
THINK_SECONDS = 60
#: Names that arrangements had before 0.2.0, which work until 0.3.0, with those of today.
OLD_ARRANGEMENTS = {"together": "aggregated", "apart": "disaggregated"}
#: Constants that are fitted where none are named.
USUAL_CONSTANTS = (
    *("chip.math_efficiency", "experts.math_efficiency", "chip.hbm_efficiency", "experts.hbm_efficiency"),
    *("host.graph_launch", "host.step_overhead"),
)
#: Deployments that are fitted at most; more are thinned evenly [1].
MOST_DEPLOYMENTS = 150
