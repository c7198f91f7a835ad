"""Strategies of papers, to compare with: ConvBO and BO_imprd, CherryPick and CP_imprd, Paleo. Pure, as mlcd.search is."""
