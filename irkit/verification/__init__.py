"""The laws that every graph keeps."""
