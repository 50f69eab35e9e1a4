"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.operators.block_values import BodyFunction as BodyFunction
from phipsi.core.operators.block_values import ConstantBlocks as ConstantBlocks
from phipsi.core.operators.catalogue import CATALOGUE as CATALOGUE
from phipsi.core.operators.catalogue import DEFAULT_FAMILY as DEFAULT_FAMILY
from phipsi.core.operators.catalogue import FAMILIES as FAMILIES
from phipsi.core.operators.catalogue import HINGE as HINGE
from phipsi.core.operators.catalogue import INERTIA as INERTIA
from phipsi.core.operators.catalogue import STEP as STEP
from phipsi.core.operators.catalogue import DifferentialTerms as DifferentialTerms
from phipsi.core.operators.catalogue import arguments_of as arguments_of
from phipsi.core.operators.catalogue import catalogue_leaf as catalogue_leaf
from phipsi.core.operators.catalogue import change_along as change_along
from phipsi.core.operators.catalogue import change_of as change_of
from phipsi.core.operators.catalogue import definition as definition
from phipsi.core.operators.catalogue import family_of as family_of
from phipsi.core.operators.catalogue import hinge_inertia as hinge_inertia
from phipsi.core.operators.catalogue import hinge_variation as hinge_variation
from phipsi.core.operators.catalogue import leaf as leaf
from phipsi.core.operators.catalogue import meaning_of as meaning_of
from phipsi.core.operators.catalogue import place_of as place_of
from phipsi.core.operators.catalogue import with_arguments as with_arguments
from phipsi.core.operators.inputs import DIRECTIONS as DIRECTIONS
from phipsi.core.operators.inputs import INPUT_ORDER as INPUT_ORDER
from phipsi.core.operators.inputs import about_points as about_points
from phipsi.core.operators.inputs import check_pairs as check_pairs
from phipsi.core.operators.inputs import check_tables as check_tables
from phipsi.core.operators.inputs import inputs_of as inputs_of
from phipsi.core.operators.inputs import leaves_of as leaves_of
from phipsi.core.operators.inputs import needs_of as needs_of
from phipsi.core.operators.inputs import nodes_of as nodes_of
from phipsi.core.operators.inputs import operands_of as operands_of
from phipsi.core.operators.inputs import own_rows as own_rows
from phipsi.core.operators.inputs import row_named as row_named
from phipsi.core.operators.inputs import written_nodes as written_nodes
from phipsi.core.operators.modal_definitions import definition_with_modes as definition_with_modes
from phipsi.core.operators.modal_definitions import depends_on_modes as depends_on_modes
from phipsi.core.operators.modal_definitions import is_about_modes as is_about_modes
from phipsi.core.operators.modal_definitions import is_of_rigid_bodies as is_of_rigid_bodies
from phipsi.core.operators.modal_definitions import knows_modes as knows_modes
from phipsi.core.operators.papers import PAPERS as PAPERS
from phipsi.core.operators.public_operators import VOCABULARY as VOCABULARY
from phipsi.core.operators.public_operators import (
    A,
    A_grasp,
    Adot,
    B,
    Bdot,
    C_e,
    D,
    D_half,
    E_phi,
    E_psi,
    Edot,
    G,
    H,
    Hdot,
    I,
    J,
    Jr,
    K,
    K_e,
    Lam_phi,
    Lambda,
    M,
    Mdot,
    Omega,
    P,
    R,
    Riccati,
    U,
    Udot,
    Upsilon,
    V,
    a,
    a_paper,
    angular,
    as_matrix,
    b,
    b_paper,
    bd,
    c_J,
    coordinates,
    cross,
    cross_force,
    dA,
    dAT,
    dB,
    dBT,
    ddM,
    dE,
    dE_trace,
    dET,
    dH,
    dH_trace,
    dHT,
    diag,
    diagonal,
    dinertia,
    dM,
    dM_trace,
    dq,
    dtau,
    dv,
    dvdot,
    eta,
    f0,
    f_ext,
    frame_pose,
    gravity,
    half,
    inertia_of,
    inertia_trace,
    logdet,
    mass_matrix,
    modal,
    modal_rows,
    moved,
    operand,
    outer,
    parse,
    phi,
    phi_tilde,
    pose,
    prescribed,
    proj,
    proj_bar,
    psi,
    psi_tilde,
    regress,
    rigid_cross,
    rigid_cross_force,
    rigid_vee,
    rigid_vee_force,
    s_gauge,
    scaled,
    shift,
    tau,
    to_com,
    total,
    trace,
    unit_effort,
    unit_inertia,
    unit_rate,
    unprescribed,
    v,
    vdot,
    vee,
    vee_force,
)
from phipsi.core.operators.public_operators import as_expression as as_expression
from phipsi.core.operators.public_operators import identity as identity
from phipsi.core.operators.public_operators import own_leaves as own_leaves
from phipsi.core.operators.public_operators import vocabulary as vocabulary
from phipsi.core.operators.transitions import check_structure as check_structure
from phipsi.core.operators.transitions import is_one_step as is_one_step
from phipsi.core.operators.transitions import is_step as is_step
from phipsi.core.operators.transitions import is_transition as is_transition
from phipsi.core.operators.transitions import plain_transition as plain_transition
from phipsi.core.operators.transitions import solution as solution
from phipsi.core.operators.transitions import strict_transition as strict_transition
from phipsi.core.operators.transitions import transition_step as transition_step
from phipsi.core.operators.transitions import transition_with as transition_with

__all__ = [
    "A",
    "A_grasp",
    "Adot",
    "B",
    "Bdot",
    "C_e",
    "D",
    "D_half",
    "E_phi",
    "E_psi",
    "Edot",
    "G",
    "H",
    "Hdot",
    "I",
    "J",
    "Jr",
    "K",
    "K_e",
    "Lam_phi",
    "Lambda",
    "M",
    "Mdot",
    "Omega",
    "P",
    "R",
    "Riccati",
    "U",
    "Udot",
    "Upsilon",
    "V",
    "a",
    "a_paper",
    "angular",
    "as_matrix",
    "b",
    "b_paper",
    "bd",
    "c_J",
    "coordinates",
    "cross",
    "cross_force",
    "dA",
    "dAT",
    "dB",
    "dBT",
    "ddM",
    "dE",
    "dE_trace",
    "dET",
    "dH",
    "dH_trace",
    "dHT",
    "diag",
    "diagonal",
    "dinertia",
    "dM",
    "dM_trace",
    "dq",
    "dtau",
    "dv",
    "dvdot",
    "eta",
    "f0",
    "f_ext",
    "frame_pose",
    "gravity",
    "half",
    "inertia_of",
    "inertia_trace",
    "logdet",
    "mass_matrix",
    "modal",
    "modal_rows",
    "moved",
    "operand",
    "outer",
    "parse",
    "phi",
    "phi_tilde",
    "pose",
    "prescribed",
    "proj",
    "proj_bar",
    "psi",
    "psi_tilde",
    "regress",
    "rigid_cross",
    "rigid_cross_force",
    "rigid_vee",
    "rigid_vee_force",
    "s_gauge",
    "scaled",
    "shift",
    "tau",
    "to_com",
    "total",
    "trace",
    "unit_effort",
    "unit_inertia",
    "unit_rate",
    "unprescribed",
    "v",
    "vdot",
    "vee",
    "vee_force",
]
