"""`python -m irkit`: the command line."""

from irkit_command import main

if __name__ == "__main__":
    main()
