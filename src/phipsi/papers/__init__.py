"""The five papers: proofs, theorems, derivations, and the workbench."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "derivations.derive": "derive",
        "derivations.named_equations": "book difference",
        "derivations.normal_form": "words_of",
        "derivations.paper_derivations": "DERIVATIONS derivation_of",
        "model_checks": "Check check_model",
        "proofs.claim_decision": "bound digits_state equal in_digits modular_state sides",
        "proofs.digits": "long_decimals",
        "proofs.exact_array": "NotRational",
        "theorems.book": "ERRATA THEOREMS",
        "theorems.book_index": "identities",
        "theorems.prove": "prove",
        "workbench.server": "Workbench",
    },
)
