"""Middleware, routes, the API, logs and figures of the server."""
