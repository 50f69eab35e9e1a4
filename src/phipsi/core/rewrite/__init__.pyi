"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.rewrite.causal import diagonal_part as diagonal_part
from phipsi.core.rewrite.causal import is_block_operator as is_block_operator
from phipsi.core.rewrite.causal import one_step_factors as one_step_factors
from phipsi.core.rewrite.collect import collect as collect
from phipsi.core.rewrite.collect import split_sign as split_sign
from phipsi.core.rewrite.expansion import Factors as Factors
from phipsi.core.rewrite.expansion import expand_products as expand_products
from phipsi.core.rewrite.expansion import products_of as products_of
from phipsi.core.rewrite.expansion import step_factors as step_factors
from phipsi.core.rewrite.identities import RULES as RULES
from phipsi.core.rewrite.identity import CONDITIONS as CONDITIONS
from phipsi.core.rewrite.identity import Claim as Claim
from phipsi.core.rewrite.identity import Erratum as Erratum
from phipsi.core.rewrite.identity import Identity as Identity
from phipsi.core.rewrite.identity import claim as claim
from phipsi.core.rewrite.identity import is_about_rows as is_about_rows
from phipsi.core.rewrite.identity import sides_of as sides_of
from phipsi.core.rewrite.identity import unmet as unmet
from phipsi.core.rewrite.inverses import inverse_form as inverse_form
from phipsi.core.rewrite.inverses import riccati_of as riccati_of
from phipsi.core.rewrite.inverses import split_diagonal as split_diagonal
from phipsi.core.rewrite.matrix_splitting import between_seeds as between_seeds
from phipsi.core.rewrite.matrix_splitting import matrix_product as matrix_product
from phipsi.core.rewrite.matrix_splitting import matrix_terms as matrix_terms
from phipsi.core.rewrite.matrix_splitting import strip_marks as strip_marks
from phipsi.core.rewrite.patterns import families_of as families_of
from phipsi.core.rewrite.patterns import find_in_product as find_in_product
from phipsi.core.rewrite.patterns import instances as instances
from phipsi.core.rewrite.patterns import replace_in_sum as replace_in_sum
from phipsi.core.rewrite.rewriter import USUAL as USUAL
from phipsi.core.rewrite.rewriter import FinalForm as FinalForm
from phipsi.core.rewrite.rewriter import Rewriter as Rewriter
from phipsi.core.rewrite.rewriter import RewriteStep as RewriteStep
from phipsi.core.rewrite.rewriter import Rewriting as Rewriting
from phipsi.core.rewrite.rewriter import rewrite as rewrite
from phipsi.core.rewrite.rewriter import rewrite_by_rules as rewrite_by_rules
from phipsi.core.rewrite.rewriter import rewrite_one as rewrite_one
from phipsi.core.rewrite.user_rules import is_self_matching as is_self_matching

__all__ = []
