"""The operators and vectors of the algebra, ready to write equations with."""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "public_operators": (
            "A A_grasp Adot B Bdot C_e D D_half E_phi E_psi Edot G H Hdot I J Jr K K_e Lam_phi "
            "Lambda M Mdot Omega P R Riccati U Udot Upsilon V a a_paper angular as_matrix b "
            "b_paper bd c_J coordinates cross cross_force dA dAT dB dBT dE dET dE_trace dH dHT "
            "dH_trace dM dM_trace ddM diag diagonal dinertia dq dtau dv dvdot eta f0 f_ext "
            "frame_pose gravity half inertia_of inertia_trace logdet mass_matrix modal modal_rows "
            "moved operand outer parse phi phi_tilde pose prescribed proj proj_bar psi psi_tilde "
            "regress rigid_cross rigid_cross_force rigid_vee rigid_vee_force s_gauge scaled shift "
            "tau to_com total trace unit_effort unit_inertia unit_rate unprescribed v vdot vee "
            "vee_force"
        ),
    },
    within={
        "block_values": "BodyFunction ConstantBlocks",
        "catalogue": (
            "CATALOGUE DEFAULT_FAMILY FAMILIES HINGE INERTIA STEP DifferentialTerms arguments_of "
            "catalogue_leaf change_along change_of definition family_of hinge_inertia "
            "hinge_variation leaf meaning_of place_of with_arguments"
        ),
        "inputs": (
            "DIRECTIONS INPUT_ORDER about_points check_pairs check_tables inputs_of leaves_of "
            "needs_of nodes_of operands_of own_rows row_named written_nodes"
        ),
        "modal_definitions": (
            "definition_with_modes depends_on_modes is_about_modes is_of_rigid_bodies knows_modes"
        ),
        "papers": "LETTERS PAPERS paper_named",
        "public_operators": "VOCABULARY as_expression as_sides identity custom_leaves vocabulary",
        "transitions": (
            "check_structure is_one_step is_step is_transition plain_transition solution "
            "strict_transition transition_step transition_with"
        ),
        "units_at_points": "point_units",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
