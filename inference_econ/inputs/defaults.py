"""Default values of commands, scenarios and queries."""

#: Input and output length of requests [tokens].
DEFAULT_ISL, DEFAULT_OSL = 2000, 500
#: Mean context of a decode step for requests of the default lengths [tokens].
MEAN_CONTEXT = DEFAULT_ISL + DEFAULT_OSL / 2
#: Speed per user at which tokens are priced by default. It is used if there is no TPOT SLO, and no offers of the model
#: are known. The value is an assumption of this project [tokens/s].
USUAL_TOKENS_PER_SECOND = 20.0
#: Think time between a response and the next request of the user; assumed, as in the workload ``chat`` [s].
THINK_SECONDS = 60
#: Current names of arrangements of prefill and decode, by their old names, which are accepted until version 0.3.0.
OLD_ARRANGEMENTS = {"together": "aggregated", "apart": "disaggregated"}
#: Names of the constants that the command ``calibrate`` fits by default.
USUAL_CONSTANTS = (
    *("chip.math_efficiency", "experts.math_efficiency", "chip.hbm_efficiency", "experts.hbm_efficiency"),
    *("host.graph_launch", "host.step_overhead"),
)
#: Maximum number of deployments in a fit. If more are measured, deployments at equal distances in the list are used
#: [1].
MOST_DEPLOYMENTS = 150
