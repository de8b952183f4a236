"""Load: many visitors without a browser against a served app, over Streamlit's own websocket."""
