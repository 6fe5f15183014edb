"""What the pages are made of: charts, controls, and one module of panels per page."""
