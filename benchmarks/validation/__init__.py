"""How predictions fare against measured servers, as a document: docs/evidence/validation.md, its picture and pages."""
