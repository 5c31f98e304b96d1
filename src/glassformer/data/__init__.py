"""Text and labels from files. The readers import no torch."""
