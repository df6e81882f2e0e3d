"""`python -m openab_kernel` is `openab-kernel`."""

from openab_kernel.cli import main

if __name__ == "__main__":
    main()
