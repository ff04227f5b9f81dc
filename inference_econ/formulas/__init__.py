"""Published equations: one function per equation, with arrays as input and output.

Equation numbers without another source refer to E. Erdil, "Inference economics of language models", arXiv:2506.04645
(2025), key ``erdil2025`` in ``references.bib``. Docstrings also call this paper the published study. The tables of the
paper were computed with the author's published code (``erdil2025code``). If the code and the equations differ, the
docstring of a function states which version the function follows.
"""
