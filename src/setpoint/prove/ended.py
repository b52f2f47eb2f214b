"""A proof that somebody ends before it is over: what it has found until then is kept."""

from __future__ import annotations

from setpoint.model.proof import Proof


class ProofEnded(KeyboardInterrupt):
    """Ctrl-C, or a signal to end, with what was proven until then; all is brought back."""

    def __init__(self, proof: Proof, state: str) -> None:
        super().__init__()
        self.proof, self.state = proof, state
