"""What the pages are made of: readers, filters, charts and one module of panels per page."""
