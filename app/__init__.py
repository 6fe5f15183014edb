"""The dashboard: a Streamlit app that reads the tables and imports nothing of the pipeline."""
