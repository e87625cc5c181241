"""Upper bounds on epsilon that libraries claim, one adapter a file."""

from audit.plugins import share_files

PLUGINS = share_files(
    _adaptive="concentrated_filter renyi_filter renyi_odometer",
    _central_limit="classical_gaussian gaussian_clt",
    _libraries="diffprivlib_budget dp_accelerator opacus_gdp opacus_prv opacus_rdp pfl",
    _library_renyi="dp_accounting_rdp rdp rdp_classic",
)
