"""The studio's URLs: each module has one `add_routes(app, state)`."""
