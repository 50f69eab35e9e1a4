"""The same operator, cheaper: rules, theorems and the engine that applies them."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "causal": "diagonal_part is_block_operator one_step_factors",
        "collect": "collect split_sign",
        "expansion": "Factors expand_products products_of step_factors",
        "identities": "RULES",
        "identity": "CONDITIONS Claim Erratum Identity claim is_about_rows sides_of unmet",
        "inverses": "inverse_form riccati_of split_diagonal",
        "matrix_splitting": "between_seeds matrix_product matrix_terms out_and_back strip_marks",
        "patterns": "families_of find_in_product instances replace_in_sum",
        "rewriter": (
            "USUAL FinalForm Rewriter RewriteStep Rewriting rewrite rewrite_by_rules rewrite_one"
        ),
        "user_rules": "is_self_matching",
    },
)
