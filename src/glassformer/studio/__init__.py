"""The studio: a model's inside in the browser. `app.create_app` is the server."""
