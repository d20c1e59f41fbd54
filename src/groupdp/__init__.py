"""groupdp."""
