"""Pages whose figures come from records: gathered from run folders, filled in and checked by a command."""
