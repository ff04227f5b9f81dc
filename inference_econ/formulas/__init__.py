"""Published equations, one function each: arrays in, arrays out, no state.

Equation numbers refer to E. Erdil, "Inference economics of language models", arXiv:2506.04645 (2025), key ``erdil2025``
in ``references.bib``; the docstrings also call it the published study. The tables of the paper were computed with the
author's published code (``erdil2025code``). If code and equations differ, the docstring of a function names the one
that the function follows.
"""
