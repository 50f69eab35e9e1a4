"""Check the papers' identities, and one of your own, on a mechanism of your own.

python examples/prove_identities.py [bodies]
"""

import sys

import phipsi as pp
from phipsi.operators import H, K, phi, psi

tree = pp.examples.random_tree(seed=7, n=int(sys.argv[1]) if len(sys.argv) > 1 else 4)
print(tree, [joint.kind for joint in tree.joints])

proofs = [pp.prove(identity, tree) for identity in pp.identities()]
failed = [p for p in proofs if p.holds is False]
skipped = [p for p in proofs if p.holds is None]
print(f"{len(proofs) - len(failed) - len(skipped)} hold, {len(failed)} fail")
print(f"{len(skipped)} do not apply, for example: {skipped[0]}")

mine = pp.Identity(phi - psi, phi @ K @ H @ psi, name="difference of propagations")
print(pp.prove(mine, tree))
assert not failed and pp.prove(mine, tree)
