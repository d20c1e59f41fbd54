"""The charges of the certificate checker, each with the line that drops it (studies/mutations.py)."""

from __future__ import annotations

from mutation import Mutation

#: inequality, file, what stands there, what replaces it, what that forgets
MUTATIONS = tuple(
    Mutation(*parts)
    for parts in (
        (
            "C-1",
            "laws.py",
            'return always or (phase["sampling"]',
            'return True or (phase["sampling"]',
            "which laws are tight",
        ),
        ("C-2", "laws.py", "max(0, m - room)", "0", "the displaced examples"),
        ("C-3", "laws.py", "fmpq(size + 2 * pairs)", "fmpq(size + pairs)", "half of the pairs"),
        ("C-4", "checker.py", "normal(-j * unit - u)", "normal(-j * unit - u) / 2", "half of Q after one round"),
        ("C-4", "checker.py", "if a.degree() < 1 and", "if a.degree() < 2 and", "the branches with one shift"),
        (
            "C-5",
            "checker.py",
            "upper.upper()) + self.dropped).upper()",
            "upper.upper())).upper()",
            "dropped shifts of P",
        ),
        ("C-6", "checker.py", "- left - right - self.raised", "- left - right", "dropped shifts of Q"),
        (
            "C-7",
            "checker.py",
            "(at.step * at.count) ** 2",
            "2 * (at.step * at.count) ** 2",
            "the decay of Gaussian rounds",
        ),
        (
            "C-8",
            "checker.py",
            "error = tails + most * branch.error(at.c, at.step * j)",
            "error = tails",
            "the strip bound",
        ),
        ("C-8", "checker.py", "s * self.strip * (self.x[1] + self.y[1])", "0", "the growth of the strip bound with s"),
        ("C-8", "checker.py", "- z * self.cosine.log()", "", "the cosine in the strip bound"),
        ("C-9", "checker.py", "error = tails + most *", "error = most *", "both tails of the quadrature"),
        ("C-9", "checker.py", "found[0] / left.expm1() + found[-1]", "found[-1]", "the left tail"),
        ("C-9", "checker.py", "+ found[-1] / right.expm1()", "", "the right tail"),
        ("C-10", "checker.py", "(sa_next + sb)", "(sa_next + sb) / 2", "half of the slope"),
        ("C-10", "lines.py", "x.sinc() if x < arb.pi() / 2 else 1 / x", "x.sinc() ** 2", "the envelope"),
        (
            "C-11",
            "checker.py",
            "return c * c.log() - (1 + c)",
            "return c * c.log() - 2 * (1 + c)",
            "Chernoff's constant",
        ),
        ("C-12", "checker.py", ".real * (2 if j else 1)", ".real * 2", "that j = 0 counts once"),
        ("C-13", "checker.py", "((total + rest).upper()", "(total.upper()", "truncation, from above"),
        ("C-13", "checker.py", "total - rest - left", "total - left", "truncation, from below"),
        ("C-14", "checker.py", "- rest - left", "- rest", "left aliases"),
        ("C-15", "checker.py", "- left - right", "- left", "right aliases"),
        ("C-16", "checker.py", "if eps + period >= self.largest:", "if True:", "that losses may be unbounded"),
        ("C-16", "checker.py", "or arb(epsilon) >= largest_loss(parts)", "or arb(epsilon) >= 1", "the largest loss"),
        (
            "C-17",
            "checker.py",
            "if upper is not None and not all(",
            "if upper is not None and not any(",
            "all but one pair",
        ),
        ("C-17", "checker.py", "if lower > 0 and not any(", "if False and not any(", "the lower side"),
        (
            "C-18",
            "envelope.py",
            "if not all(self.is_proved(piece) for piece in self.pieces)",
            "if False",
            "to prove active sets",
        ),
        ("C-19", "envelope.py", "return total + ball(beyond)", "return total", "the end of the envelope's integral"),
        ("C-19", "envelope.py", "+ (-z * log).exp()) * phi", ") * phi", "losses below zero"),
        ("C-20", "envelope.py", "* weight / slope", "* weight * 4 / slope", "a fourth of the envelope's density"),
    )
)
