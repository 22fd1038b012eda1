"""``python -m rebalancer``: the same program where no console script is installed, as in the container."""

from rebalancer.cli.main import main

if __name__ == "__main__":
    main(prog_name="rebalancer")
