"""Figures that the pages and `tidemark report` show, computed from the tables; nothing of Streamlit is here."""
