"""What a target lacks, expanded into what it has."""
