import { follow, place } from "./live.js";

const list = document.querySelector("[data-live]");
if (list) follow(list.dataset.live, ({ parts }) => place(parts));
