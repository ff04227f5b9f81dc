"""Default values of commands, scenarios and queries."""

#: Input and output length of requests [tokens].
DEFAULT_ISL, DEFAULT_OSL = 2000, 500
#: Mean context of decode steps for the default lengths [tokens].
MEAN_CONTEXT = DEFAULT_ISL + DEFAULT_OSL / 2
#: Speed per user at which tokens are priced if neither a TPOT SLO nor offers of the model are known; an assumption of
#: this project [tokens/s].
USUAL_TOKENS_PER_SECOND = 20.0
#: Think time between a response and the next request of the user; assumed, as in the workload ``chat`` [s].
THINK_SECONDS = 60
#: New names of arrangements, by the old names that are valid until 0.3.0.
OLD_ARRANGEMENTS = {"together": "aggregated", "apart": "disaggregated"}
#: Constants that ``calibrate`` fits by default.
USUAL_CONSTANTS = (
    *("chip.math_efficiency", "experts.math_efficiency", "chip.hbm_efficiency", "experts.hbm_efficiency"),
    *("host.graph_launch", "host.step_overhead"),
)
#: Maximum number of fitted deployments; larger sets are thinned evenly [1].
MOST_DEPLOYMENTS = 150
