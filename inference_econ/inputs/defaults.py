"""Default values of commands, scenarios and queries."""

#: Input and output length of requests [tokens].
DEFAULT_ISL, DEFAULT_OSL = 2000, 500
#: Mean context of decode steps of such requests [tokens].
MEAN_CONTEXT = DEFAULT_ISL + DEFAULT_OSL / 2
#: Speed per user at which tokens are priced without a TPOT SLO or a median of offers; an assumption of this project
#: [tokens/s].
USUAL_TOKENS_PER_SECOND = 20.0
#: Time between a response and the user's next request; assumed, as in the workload ``chat`` [s].
THINK_SECONDS = 60
#: Old names of arrangements, valid until 0.3.0, with the new ones.
OLD_ARRANGEMENTS = {"together": "aggregated", "apart": "disaggregated"}
#: Constants that are fitted by default.
USUAL_CONSTANTS = (
    *("chip.math_efficiency", "experts.math_efficiency", "chip.hbm_efficiency", "experts.hbm_efficiency"),
    *("host.graph_launch", "host.step_overhead"),
)
#: Maximum number of fitted deployments; larger sets are thinned evenly [1].
MOST_DEPLOYMENTS = 150
