"""The pages of the dashboard: folder, title, icon and address of each."""

# Folder, title and icon of every page, by the section of the menu. The address of a page is its folder,
# but for the pages that links of earlier versions name otherwise.
SECTIONS = {
    "": [("start", "Start", "home")],
    "Understand": [
        ("lessons", "Learn in five steps", "school"),
        ("why_order_matters", "Why order matters", "swap_horiz"),
        ("encoding", "Encoding", "waves"),
        ("claims", "Claims", "fact_check"),
    ],
    "Compare": [
        ("at_a_glance", "At a glance", "grid_view"),
        ("similarity", "Similarity", "join_inner"),
        ("pca", "PCA", "scatter_plot"),
        ("relative_offsets", "Relative offsets", "arrow_range"),
        ("extrapolation", "Extrapolation", "trending_up"),
        ("train", "Train", "model_training"),
        ("inside_model", "Inside a model", "biotech"),
    ],
    "Your model": [
        ("extend_context", "Extend a model's context", "straighten"),
        ("check_my_encoding", "Check my encoding", "troubleshoot"),
    ],
}
ADDRESSES = {
    "start": "",
    "lessons": "learn",
    "why_order_matters": "why_position",
    "at_a_glance": "overview",
    "extend_context": "context_planner",
}
TITLES = {folder: title for entries in SECTIONS.values() for folder, title, _ in entries}
PATHS = {folder: ADDRESSES.get(folder, folder) for folder in TITLES}
