/**
 * The namespace of a folder, by the rule of the command line: the nearest `.mnemo.toml`, else the name of the git work
 * tree's top folder if `client.project_namespaces` is on, else none, which is the daemon's `default`.
 *
 * Of TOML only a key and its value on one line are read, with the section on a line above, and strings without escapes.
 */

import * as fs from "node:fs";
import * as path from "node:path";

import { MnemoError } from "./errors";
import { configFile, type Environment } from "./places";

const FILE_NAME = ".mnemo.toml";
const SWITCH = "MNEMO_CLIENT_PROJECT_NAMESPACES";
const CHARS_MAX = 64;
const YES = new Set(["1", "true", "yes", "on"]);
const NO = new Set(["0", "false", "no", "off", ""]);

/** Return the namespace for requests from the folder, undefined for the daemon's default. Throws MnemoError. */
export function folderNamespace(folder: string, environ: Environment): string | undefined {
  const folders = foldersAbove(path.resolve(folder));
  for (const place of folders) {
    const file = path.join(place, FILE_NAME);
    const text = textOf(file);
    if (text !== undefined) {
      const written = /^(?:"([^"\\]*)"|'([^']*)')\s*(?:#.*)?$/u.exec(tomlValue(text, "namespace") ?? "");
      if (written === null) {
        throw new MnemoError(`${file} names no namespace`, 'write this line in it: namespace = "NAME"');
      }
      return checkedNamespace(written[1] ?? written[2] ?? "", file);
    }
  }
  if (hasProjectNamespaces(environ)) {
    for (const place of folders) {
      if (path.basename(place) && fs.existsSync(path.join(place, ".git"))) {
        return checkedNamespace([...path.basename(place)].slice(0, CHARS_MAX).join(""), place);
      }
    }
  }
  return undefined;
}

/** Return the name without blanks around it. Throws MnemoError if the daemon cannot use it. */
export function checkedNamespace(name: string, origin: string): string {
  const found = name.trim();
  const length = [...found].length;
  if (length < 1 || length > CHARS_MAX || /\p{Cc}/u.test(found)) {
    throw new MnemoError(
      `${JSON.stringify(name)} (${origin}) cannot be a namespace`,
      `a namespace has 1 to ${CHARS_MAX} printable characters on one line`,
    );
  }
  return found;
}

function hasProjectNamespaces(environ: Environment): boolean {
  const value = environ[SWITCH]?.toLowerCase();
  if (value !== undefined) {
    if (!YES.has(value) && !NO.has(value)) {
      throw new MnemoError(`${SWITCH} is ${JSON.stringify(value)}`, "set it to true or false");
    }
    return YES.has(value);
  }
  const text = textOf(configFile(environ)) ?? "";
  return /^true\s*(?:#.*)?$/u.test(tomlValue(text, "client.project_namespaces") ?? "");
}

/** Return the value of a key, such as `client.name`, as it is written; undefined if there is none. */
function tomlValue(text: string, key: string): string | undefined {
  let prefix = "";
  for (const line of text.split(/\r?\n/u)) {
    const section = /^\s*\[\s*([\w.-]+)\s*\]/u.exec(line);
    const assigned = /^\s*([\w.-]+)\s*=\s*(.*?)\s*$/u.exec(line);
    if (section !== null) {
      prefix = `${section[1]}.`;
    } else if (assigned !== null && prefix + assigned[1] === key) {
      return assigned[2];
    }
  }
  return undefined;
}

function foldersAbove(folder: string): string[] {
  const parent = path.dirname(folder);
  return parent === folder ? [folder] : [folder, ...foldersAbove(parent)];
}

/** Return the text of the file, undefined if there is no such file. Throws MnemoError if it cannot be read. */
function textOf(file: string): string | undefined {
  try {
    return fs.statSync(file).isFile() ? fs.readFileSync(file, "utf8") : undefined;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") {
      return undefined;
    }
    throw new MnemoError(`${file} cannot be read: ${message}`, "name a namespace in the settings");
  }
}
