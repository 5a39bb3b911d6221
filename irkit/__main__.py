"""`python -m irkit`: the command line."""

from irkit.cli import app_main

if __name__ == "__main__":
    app_main()
