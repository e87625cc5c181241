"""Upper bounds on epsilon that libraries claim, one adapter a file."""

PLUGINS = {
    "classical_gaussian": "_central_limit:ClassicalGaussian",
    "concentrated_filter": "_adaptive:ConcentratedFilter",
    "diffprivlib_budget": "_libraries:DiffprivlibBudget",
    "dp_accelerator": "_libraries:DpAccelerator",
    "dp_accounting_rdp": "_library_renyi:DpAccountingRdp",
    "gaussian_clt": "_central_limit:GaussianClt",
    "opacus_gdp": "_opacus:OpacusGdp",
    "opacus_prv": "_opacus:OpacusPrv",
    "opacus_rdp": "_opacus:OpacusRdp",
    "pfl": "_libraries:Pfl",
    "rdp": "_library_renyi:Rdp",
    "rdp_classic": "_library_renyi:RdpClassic",
    "renyi_filter": "_adaptive:RenyiFilter",
    "renyi_odometer": "_adaptive:RenyiOdometer",
}
