"""The model server: routes that the clients of other servers know, over one scheduler a model."""
