"""Search for Pareto-optimal layouts.

``fastest`` finds the fastest layout for each instance size and batch. ``frontier`` computes the frontier of cost
against speed, and lists every combination of instance size, batch and layout, with the number that cannot run by
reason.

``__init__.pyi`` lists the public names. ``_search`` computes lower bounds on step times, with which ``fastest`` skips
slow layouts. The package models decode steps and chip prices, but no requests.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
