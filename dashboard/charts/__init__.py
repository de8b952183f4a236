"""Chart specifications and their data frames; nothing here imports Streamlit."""
