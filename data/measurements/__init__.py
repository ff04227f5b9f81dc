"""Published tables of measured servers, turned into rows whose columns are the fields of a measurement.

A published row leaves out much that its collection makes plain elsewhere: what the script of a run told the engine,
which pools a recipe has, whether a run speculated. Here that is looked up, once; ``scenarios/measured/servers`` holds
what comes out, and ``sh run.sh refit measurements`` writes it again.
"""
