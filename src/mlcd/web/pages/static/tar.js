// A folder of this computer as one tar file, so that it can be sent as an archive.

const SKIPPED = [".git", "__pycache__", ".venv", "venv", "node_modules", ".mypy_cache", ".ipynb_checkpoints"];

// The files of a folder that was chosen, without what no program needs.
export function chosen(files) {
  return [...files].filter((file) => !path(file).split("/").some((part) => SKIPPED.includes(part)));
}

export async function tar(files) {
  const blocks = [];
  for (const file of files) {
    blocks.push(header(path(file), file.size), file, new Uint8Array((512 - (file.size % 512)) % 512));
  }
  return new Blob([...blocks, new Uint8Array(1024)]);
}

// The folder itself is left out: its content is what is sent.
function path(file) {
  return file.webkitRelativePath.split("/").slice(1).join("/") || file.name;
}

function header(name, size) {
  const bytes = new Uint8Array(512), text = new TextEncoder();
  const write = (at, words) => bytes.set(text.encode(words), at);
  const [prefix, rest] = split(name, text);
  write(0, rest);
  write(100, "0000644\0");
  write(108, "0000000\0");
  write(116, "0000000\0");
  write(124, `${size.toString(8).padStart(11, "0")}\0`);
  write(136, "00000000000\0");
  write(148, "        ");
  write(156, "0");
  write(257, "ustar\0" + "00");
  write(345, prefix);
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  write(148, `${sum.toString(8).padStart(6, "0")}\0 `);
  return bytes;
}

// Names longer than 100 bytes are kept in two parts.
function split(name, text) {
  if (text.encode(name).length <= 100) return ["", name];
  for (let at = name.indexOf("/"); at > 0; at = name.indexOf("/", at + 1)) {
    const parts = [name.slice(0, at), name.slice(at + 1)];
    if (text.encode(parts[0]).length <= 155 && text.encode(parts[1]).length <= 100) return parts;
  }
  throw new Error(`The name is too long: ${name}`);
}
