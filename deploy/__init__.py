"""Deployment: container images, several servers, and the upload of a Space."""
