"""`python -m groupdp` is `groupdp`."""

from groupdp.cli import main

if __name__ == "__main__":
    main()
