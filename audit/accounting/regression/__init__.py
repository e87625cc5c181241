"""The regression suite of accountants: cases, judgement, sandbox, pytest plug-in."""
