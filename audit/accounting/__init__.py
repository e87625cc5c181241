"""What a mechanism is entitled to: accountants, their regression suite, the ledger of releases."""
