"""What holds of a graph's sizes, arguments and data: facts, the binding of symbols, the contract as JSON."""
