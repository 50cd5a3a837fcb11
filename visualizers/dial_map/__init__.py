"""The dial map: every text that a run can write along one dial, as one picture."""
