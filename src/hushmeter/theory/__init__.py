"""The paper's bounds, the exact accuracy of its attacker, and the limit of any attacker.

`bounds` is the entry point to all bounds. Every bound has the form that the paper prints, the form
that its own integrals give, and a corrected form that can be proved.
"""
