"""The words of the house: frozen values that every floor may use. Imports nothing of the project above it."""
