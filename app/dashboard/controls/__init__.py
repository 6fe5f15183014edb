"""Input controls: the filter bar, forms, lists, tables and dialogs."""
