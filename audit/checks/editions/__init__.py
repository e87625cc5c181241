"""An attacker on a report that is given away: what its figures, the model, the records and all scores tell of memberships."""
