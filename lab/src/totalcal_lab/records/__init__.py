"""What runs leave behind: folders, records, what they say under corruption and of domains; no torch."""

from totalcal_lab.records.store import append, read_records

__all__ = ["append", "read_records"]
