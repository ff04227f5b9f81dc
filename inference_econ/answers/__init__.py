"""One file per question that people ask, and what answers it."""
