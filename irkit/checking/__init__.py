"""Whether rules and graphs mean the same: instances, comparison, counterexamples, random graphs."""
