"""What is asked of runs that ended: detection, likelihood, forks, many draws, the gallery."""
