"""The sidebar's controls, the controls of one page, links and the pinned setting."""
