"""What the studio and the model server share: limits on requests, and the HTTP server itself."""
