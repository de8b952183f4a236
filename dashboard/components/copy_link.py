"""A button that copies the link of what is shown; the browser alone has the clipboard."""

import streamlit as st

_button = st.components.v2.component(
    "posenc_copy_link",
    html='<button type="button" title="Reopens exactly this view."></button>',
    css="""
button {
  min-height: 2.5rem; padding: 0.25rem 0; border: 0; background: none; cursor: pointer;
  color: var(--st-text-color); font: 400 0.875rem var(--st-font); white-space: nowrap;
}
button::before {
  content: ""; display: inline-block; width: 1em; height: 1em; margin-right: 0.5rem;
  vertical-align: -0.15em; background: currentColor;
  mask: url('data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path \
d="M4 12a5 5 0 0 1 5-5h3v2H9a3 3 0 0 0 0 6h3v2H9a5 5 0 0 1-5-5m4-1h8v2H8zm4-4h3a5 5 0 0 1 0 10h-3v-2h3\
a3 3 0 0 0 0-6h-3z"/></svg>') center / contain no-repeat;
}
button:hover { color: var(--st-primary-color); }
button:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 2px; }
""",
    js="""
const LABEL = "Copy link";
const copy = async (text) => {
  if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
  const field = document.body.appendChild(document.createElement("textarea"));
  field.value = text;
  field.select();
  const copied = document.execCommand("copy");  // over plain HTTP there is nothing else
  field.remove();
  if (!copied) throw new Error("the browser refused to copy");
};
export default ({ data, parentElement }) => {
  const button = parentElement.querySelector("button");
  button.textContent ||= LABEL;
  button.onclick = async () => {
    try {
      await copy(data.link);
      button.textContent = "Link copied";
    } catch {
      prompt("Copy this link:", data.link);
    }
    setTimeout(() => { button.textContent = LABEL; }, 2000);
  };
};
""",
)


def copy_link(link: str) -> None:
    """Draw the button that copies a link with one click."""
    _button(key="copy_link", data={"link": link}, width="content", height="content")
