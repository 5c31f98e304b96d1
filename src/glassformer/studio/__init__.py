"""The studio: a model's inside in the browser. `app.create_app` builds the server.

A page is three files: `routes/` registers its URLs, `views/` computes what it shows, `web/` draws.
"""
