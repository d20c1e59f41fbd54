"""What was a module and is a package keeps its names."""

from __future__ import annotations

import groupdp as library


def test_packages_that_were_modules_keep_their_names():
    from groupdp.people import people_view
    from groupdp.pld import PrivacyLossDistribution

    assert people_view is library.people_view
    assert PrivacyLossDistribution is library.PrivacyLossDistribution
