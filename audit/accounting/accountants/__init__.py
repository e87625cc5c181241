"""Upper bounds on epsilon that libraries claim, one adapter a file."""

PLUGINS = {
    "classical_gaussian": "_central_limit:ClassicalGaussian",
    "concentrated_filter": "_adaptive:ConcentratedFilter",
    "gaussian_clt": "_central_limit:GaussianClt",
    "opacus_gdp": "_opacus:OpacusGdp",
    "opacus_prv": "_opacus:OpacusPrv",
    "opacus_rdp": "_opacus:OpacusRdp",
    "rdp": "_library_renyi:Rdp",
    "rdp_classic": "_library_renyi:RdpClassic",
    "renyi_filter": "_adaptive:RenyiFilter",
    "renyi_odometer": "_adaptive:RenyiOdometer",
}
