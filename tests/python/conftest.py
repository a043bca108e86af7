"""Fixtures of the Python tests: every test starts from the same seeds."""

import random

import numpy as np
import pytest

import plait as mx


@pytest.fixture(autouse=True)
def seeds():
    """The same random numbers in every test, whichever ran before it."""
    random.seed(1)
    np.random.seed(1)
    mx.random.seed(1)
