"""A finished `AuditReport` as PDF, JSON, JUnit, SARIF and figures. Imports `audit.core` only."""
