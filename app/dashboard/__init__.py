"""The pages of the dashboard: charts, controls, and one module of panels per page."""
