"""Analyses of finished runs: watermark detection, likelihood, branches, many draws, the gallery."""
