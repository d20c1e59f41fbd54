"""Now `groupdp.baselines.tensorflow_privacy_model`; this name goes in 0.3."""

from groupdp._moved import moved_to

__getattr__ = moved_to(__name__, "groupdp.baselines.tensorflow_privacy_model")
