/** The paths of the daemon's socket (clients/docs/http.md, "Socket path") and configuration. No file is read. */

import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";

import { SocketPathError } from "./errors";

export type Environment = Readonly<Record<string, string | undefined>>;

/** sockaddr_un holds 108 bytes on Linux and 104 on macOS, the closing zero byte included. */
export function socketPathBytesMax(platform: NodeJS.Platform): number {
  return platform === "darwin" ? 103 : 107;
}

/** Return the socket on which the user's daemon listens. Throws SocketPathError if the system cannot use the path. */
export function socketPath(environ: Environment, platform: NodeJS.Platform = process.platform): string {
  const chosen = environ["MNEMO_SOCKET"];
  const runtime = environ["XDG_RUNTIME_DIR"] ?? "";
  let found: string;
  if (chosen) {
    found = absolute(chosen, environ);
  } else if (runtime.startsWith("/") && !environ["MNEMO_DATA_DIR"]) {
    found = path.join(runtime, "mnemo", "mnemo.sock");
  } else {
    found = path.join(dataFolder(environ, platform), "run", "mnemo.sock");
  }
  return checked(found, platform);
}

/** Return the path, which the user chose, as an absolute one. Throws SocketPathError. */
export function chosenSocketPath(
  chosen: string,
  environ: Environment,
  platform: NodeJS.Platform = process.platform,
): string {
  return checked(absolute(chosen, environ), platform);
}

function checked(found: string, platform: NodeJS.Platform): string {
  const length = Buffer.byteLength(found);
  const allowed = socketPathBytesMax(platform);
  if (length > allowed) {
    throw new SocketPathError(
      `the socket path ${found} has ${length} bytes; the system allows ${allowed}`,
      "set MNEMO_SOCKET to a shorter path",
    );
  }
  return found;
}

/** Return the configuration file, which need not exist. */
export function configFile(environ: Environment, platform: NodeJS.Platform = process.platform): string {
  const chosen = environ["MNEMO_CONFIG"];
  return chosen
    ? absolute(chosen, environ)
    : path.join(ownFolder(environ, platform, "XDG_CONFIG_HOME", ".config"), "config.toml");
}

function dataFolder(environ: Environment, platform: NodeJS.Platform): string {
  const chosen = environ["MNEMO_DATA_DIR"];
  return chosen ? absolute(chosen, environ) : ownFolder(environ, platform, "XDG_DATA_HOME", ".local/share");
}

/**
 * Return the folder of mnemo in that of an XDG variable, which must be absolute; macOS has one for data and settings,
 * which comes first if it is there.
 */
function ownFolder(environ: Environment, platform: NodeJS.Platform, variable: string, belowHome: string): string {
  const chosen = environ[variable] ?? "";
  const isChosen = chosen.startsWith("/");
  const library = path.join(homeFolder(environ), "Library", "Application Support", "mnemo");
  if (platform === "darwin" && (!isChosen || fs.existsSync(library))) {
    return library;
  }
  return path.join(isChosen ? chosen : path.join(homeFolder(environ), belowHome), "mnemo");
}

function homeFolder(environ: Environment): string {
  return environ["HOME"] || os.homedir();
}

function absolute(chosen: string, environ: Environment): string {
  if (chosen === "~" || chosen.startsWith("~/")) {
    return path.join(homeFolder(environ), chosen.slice(1));
  }
  return path.resolve(chosen);
}
