"""Speed against the naive way: ``sh run.sh benchmark``."""
