"""One folder per page: `page` draws, `data` computes, `charts` specifies, `script` writes Python."""
