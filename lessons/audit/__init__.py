"""The Claim Auditor: published claims, and what this machine has to say about each.

claims.yaml        what the articles state, the verdict on it, and the experiment that checks it
measure/           measurements, each a JSON document of this device (``python -m lessons.audit NAME``)
experiments/       documents, or formulas alone -> a finding: numbers, their provenance, an outcome
sentences.json     a finding in words, in each language
"""
