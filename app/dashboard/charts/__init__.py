"""Charts of the pages, as Altair and Vega-Lite draw them."""
