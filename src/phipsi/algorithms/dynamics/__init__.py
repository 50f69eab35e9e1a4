"""Efforts, accelerations, forces and energies of trees and mechanisms with loops; derivatives."""
