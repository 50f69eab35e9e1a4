"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.rewrite.causal import (
    diagonal_part as diagonal_part,
    is_block_operator as is_block_operator,
    one_step_factors as one_step_factors,
)
from phipsi.core.rewrite.collect import collect as collect, split_sign as split_sign
from phipsi.core.rewrite.expansion import (
    Factors as Factors,
    expand_products as expand_products,
    products_of as products_of,
    step_factors as step_factors,
)
from phipsi.core.rewrite.identities import RULES as RULES
from phipsi.core.rewrite.identity import (
    CONDITIONS as CONDITIONS,
    Claim as Claim,
    Erratum as Erratum,
    Identity as Identity,
    claim as claim,
    is_about_rows as is_about_rows,
    sides_of as sides_of,
    unmet as unmet,
)
from phipsi.core.rewrite.inverses import (
    inverse_form as inverse_form,
    riccati_of as riccati_of,
    split_diagonal as split_diagonal,
)
from phipsi.core.rewrite.matrix_splitting import (
    between_seeds as between_seeds,
    matrix_product as matrix_product,
    matrix_terms as matrix_terms,
    out_and_back as out_and_back,
    strip_marks as strip_marks,
)
from phipsi.core.rewrite.patterns import (
    families_of as families_of,
    find_in_product as find_in_product,
    instances as instances,
    replace_in_sum as replace_in_sum,
)
from phipsi.core.rewrite.rewriter import (
    USUAL as USUAL,
    FinalForm as FinalForm,
    Rewriter as Rewriter,
    RewriteStep as RewriteStep,
    Rewriting as Rewriting,
    rewrite as rewrite,
    rewrite_by_rules as rewrite_by_rules,
    rewrite_one as rewrite_one,
)
from phipsi.core.rewrite.user_rules import is_self_matching as is_self_matching

__all__ = []
