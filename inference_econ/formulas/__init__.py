"""Published equations, one function each: arrays in, arrays out, no state.

Equation numbers refer to E. Erdil, "Inference economics of language models",
arXiv:2506.04645 (2025), key ``erdil2025`` in ``references.bib``. Where the equations and
the author's published code differ, the code (``erdil2025code``) made the tables, and the
docstring says which of the two a function follows.
"""
