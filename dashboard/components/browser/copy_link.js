// A button that copies the address, which is the link of what is shown, but not of how: whoever opens a
// link that was copied while a class was presented to may sit at a phone.
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
const link = () => {
  const address = new URL(location.href);
  address.search = address.search.slice(1).split("&").filter((part) => part !== "present=true").join("&");
  return address.href;
};
export default ({ parentElement }) => {
  const button = parentElement.querySelector("button");
  button.textContent ||= LABEL;
  button.onclick = async () => {
    try {
      await copy(link());
      button.textContent = "Link copied";
    } catch {
      prompt("Copy this link:", link());
    }
    setTimeout(() => { button.textContent = LABEL; }, 2000);
  };
};
