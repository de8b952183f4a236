// A button that copies the address, which is the link of what is shown.
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
export default ({ parentElement }) => {
  const button = parentElement.querySelector("button");
  button.textContent ||= LABEL;
  button.onclick = async () => {
    try {
      await copy(location.href);
      button.textContent = "Link copied";
    } catch {
      prompt("Copy this link:", location.href);
    }
    setTimeout(() => { button.textContent = LABEL; }, 2000);
  };
};
