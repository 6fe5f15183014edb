"""What a reader clicks and types: the bar of filters, forms, lists, tables and dialogs."""
