"""The dashboard: pages that show position encodings, served by Streamlit."""
