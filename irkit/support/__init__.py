"""What every floor may use: files written whole, lazy values, memory watched, the collector paused."""
