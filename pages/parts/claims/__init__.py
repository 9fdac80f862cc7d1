"""The parts of the Claim Auditor."""
