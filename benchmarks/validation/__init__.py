"""Validation report on measured servers: docs/evidence/validation.md with its picture and pages."""
