"""What every command, scenario and question takes where nothing is said."""

#: Lengths of requests [tokens].
DEFAULT_ISL, DEFAULT_OSL = 2000, 500
#: Context of decode steps of such requests on average [tokens].
MEAN_CONTEXT = DEFAULT_ISL + DEFAULT_OSL / 2
