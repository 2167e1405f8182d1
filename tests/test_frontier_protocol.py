"""Every implementation of the `Frontier` protocol behaves the same."""

import pytest
from shared_frontier import SettledShared, local_frontier

from crawlprio.testing import FrontierContract


class TestInThisProcess(FrontierContract):
    def make_frontier(self, settings):
        return local_frontier(settings)


class TestInACoordinator(FrontierContract):
    def make_frontier(self, settings):
        return SettledShared(settings)


class _Forgetful:
    """A local frontier that forgets to end leases: the contract must notice."""

    def __init__(self, settings):
        self._frontier = local_frontier(settings)

    def __getattr__(self, name):
        return getattr(self._frontier, name)

    def __len__(self):
        return len(self._frontier)

    def put_back(self, lease, *_):
        pass


def test_the_contract_notices_a_frontier_that_forgets_pages():
    class Contract(FrontierContract):
        def make_frontier(self, settings):
            return _Forgetful(settings)

    with pytest.raises(AssertionError):
        Contract().test_a_page_put_back_waits_where_it_was_with_the_given_request()
    Contract().test_pages_leave_by_priority_and_then_in_order_of_discovery()
