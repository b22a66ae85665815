"""Drydock's proofs: facts of an image, checks on them, evidence and reports, NCCL log verdicts."""
